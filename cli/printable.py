"""Text of others at the terminal: printed, never obeyed."""

_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {127: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
_CONTROLS |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def printable(text: str) -> str:
    r"""Return text that a terminal only prints: control characters become pictures of them.

    >>> printable("red\x1b[31m")
    'red␛[31m'
    """
    return text.translate(_CONTROLS)

"""Fences around quoted text that nothing inside can close: they carry its digest."""

import hashlib
import re

_OPENING = re.compile(r'<(?P<tag>\w+)(?: [^<>\n]*)? key="(?P<key>[0-9a-f]{16})">\n')


def fenced(tag: str, content: str, **attributes: str) -> str:
    r"""Quote `content` between fences keyed with 16 hex digits of its SHA-256.

    Whoever wrote the content could not know the key, so a forged closing fence does not match.

    >>> fenced("log", "hello", part="1 of 1")
    '<log part="1 of 1" key="2cf24dba5fb0a30e">\nhello\n</log 2cf24dba5fb0a30e>'
    """
    key = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    named = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<{tag}{named} key="{key}">\n{content}\n</{tag} {key}>'


def unquoted(text: str) -> str:
    """Return a text without what stands between such fences.

    >>> unquoted("Here: " + fenced("log", "hello") + " and so on")
    'Here:  and so on'
    """
    kept: list[str] = []
    unclosed = set[str]()
    after = 0
    for opening in _OPENING.finditer(text):
        closing = f"\n</{opening['tag']} {opening['key']}>"
        if opening.start() < after or closing in unclosed:
            continue
        end = text.find(closing, opening.end())
        if end < 0:
            unclosed.add(closing)
        else:
            kept.append(text[after : opening.start()])
            after = end + len(closing)
    return "".join([*kept, text[after:]])

"""The ambient window: cut in steps, so that between two cuts the prompt only grows at its end."""


def window(groups: int, size: int, step: int) -> int:
    """Return how many of `groups` ambient turns are in the context, the newest ones.

    At least `size`, at most `size + step - 1`; `size` 0 means all.

    >>> [window(groups, 10, 5) for groups in (9, 10, 14, 15, 16)]
    [9, 10, 14, 10, 11]
    """
    if size == 0 or groups <= size:
        return groups
    return size + (groups - size) % step

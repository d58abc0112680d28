"""Texts as sentences, each a part of the text, unchanged."""

import re
from collections.abc import Iterator

_END = re.compile(
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bcf\.)"
    r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？｡])(?![”’」』）])|"
    r"(?<=[。！？｡][”’」』）])|[\n\r]+"
)
_BULLET = re.compile(r"^(?:\s|[-*•>#]+\s|\d{1,3}[.)]\s)+")

_LIST = re.compile(r"(?:\s*(?:[-*•]|\d{1,3}[.)])\s[^\n]*(?:\n|\Z))+")


def sentences(text: str) -> Iterator[str]:
    r"""Yield the sentences and lines of a text, without the marks of lists before them.

    >>> list(sentences("It works, e.g. here. Is it fast?\n- Yes.\n1. 很快。真的！"))
    ['It works, e.g. here.', 'Is it fast?', 'Yes.', '很快。', '真的！']
    """
    start = 0
    for end in _END.finditer(text):
        yield from _bare(text[start : end.end()])
        start = end.end()
    yield from _bare(text[start:])


def rest(before: str, words: str, after: str) -> tuple[str, str]:
    """Return what the sentence of some words has before and after them.

    >>> rest("It is slow. Do not ", "restart it", " today. Wait.")
    ('Do not ', ' today.')
    """
    begin = max((end.end() for end in _END.finditer(before)), default=0)
    whole = words + after
    end = _END.search(whole, len(words))
    said = whole[len(words) : end.end() if end else len(whole)].rstrip()
    return before[begin:], said


def last_sentence(before: str) -> str:
    """Return the sentence that a text ends with, with the white space behind it.

    >>> last_sentence("It rains. It took a week. ")
    'It took a week. '
    """
    begin = max((end.end() for end in _END.finditer(before.rstrip())), default=0)
    return before[begin:]


def next_sentence(after: str) -> str:
    r"""Return the sentence or the list that a text begins with, and the white space before it.

    >>> next_sentence(" Be brief. Be kind."), next_sentence("\n- a\n- b\n\nBye.")
    (' Be brief.', '\n- a\n- b')
    """
    found = _LIST.match(after)
    if found:
        return found[0].rstrip()
    begin = len(after) - len(after.lstrip())
    end = _END.search(after, begin)
    return after[: end.end() if end else len(after)].rstrip()


def _bare(piece: str) -> Iterator[str]:
    said = _BULLET.sub("", piece).strip()
    if any(map(str.isalnum, said)):
        yield said

"""Words of a text, for comparing texts."""

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def words(text: str) -> frozenset[str]:
    """Return the words of a text, NFKC and case folded; CJK text by character pairs.

    >>> sorted(words("Fixed 401 errors"))
    ['401', 'errors', 'fixed']
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return frozenset(part for word in _WORD.findall(folded) for part in _parts(word))


def _parts(word: str) -> list[str]:
    if not _CJK.search(word) or len(word) == 1:
        return [word]
    return [word[start : start + 2] for start in range(len(word) - 1)]

"""Languages: which one a text is in, and the stems that its words have there.

Every word has its English stem. Beside it the index has the stem of the language that the words
around it show, and that of the language which was set when the turn was committed. The turn has
the latter, so that what was indexed can be taken out again whatever is set then.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from itertools import chain, repeat
from threading import local
from typing import Any

import snowballstemmer

_FUNCTION_WORDS = {
    "german": """
aber alle als am auch auf aus bei beim bis da dann das dass dem den der des die diese dieser doch
durch ein eine einem einen einer er es für gibt haben hat hatte ich ihr im ist kann kein keine mit
nach nicht noch nur oder schon sein sich sie sind über um und uns unser unsere unter vom von vor
wann war waren warum was welche welcher wenn wer werden wie wieder wir wird wo wurde zu zum zur
zwischen""",
    "french": """
alors au aux avec avons ce cela ces cette chez comme comment dans de depuis des deux du elle en est
et
été était il ils je la le les leur mais mes mon ne nos notre nous où ou par pas plus pour
pourquoi qu quand que quel quelle qui sans ses son sont sur tout tous très un une vous""",
    "spanish": """
al como con cuando cuál cuándo cuánto de del desde donde dónde el ella en entre era es esta está
este esto fue ha hasta hay la las lo los más mi muy no nos nuestro nuestra para pero por porque qué
que quién se sin sobre son su sus también tiene todo un una y ya""",
    "italian": """
abbiamo agli ai al alla alle anche che chi ci come con cosa da dal dalla degli dei del della delle
di dove e è gli ha hanno i il in la le lo ma nel nella nelle non nostra nostro per perché più quale
quando quanto questa questo sarà si sono sta stato su sul sulla suo tutti un una""",
    "portuguese": """
ao aos as com como da das de depois do dos e é ela ele em entre era esta está eu foi há isso já mais
mas na nas não no nos nossa nosso o onde os ou para pela pelo por porque qual quando quanto que quem
são se sem ser seu sua também tem um uma""",
    "dutch": """
aan als bij dan dat de deze die dit door een en er geen had heb hebben heeft het hij hoe ik in is je
kan maar meer met mijn na naar niet nog of om onze ons ook op over te tot uit van veel voor waar
waarom wanneer was wat we welke wel werd wie wij wordt ze zijn zonder""",
    "swedish": """
alla att av blev den det där efter eller en ett från för han har hade hur här i inte jag kan med men
mot mycket när nu och om oss på sig ska som till under upp utan vad var varför vi vid vilken vår
våra är över""",
    "danish": """
af alle at blev da de den der det efter eller en er et for fra han har havde hun hvad hvem hvis
hvor hvordan hvorfor hvornår i ikke jeg kan man med meget men når og også om os på skal som til ud
under var ved vi vores""",
}
"""Words by which a language is known, as they are spelled."""

_SCRIPTS = {
    "russian": re.compile("[\u0400-\u04ff]"),
    "greek": re.compile("[\u0370-\u03ff]"),
    "arabic": re.compile("[\u0600-\u06ff]"),
    "hindi": re.compile("[\u0900-\u097f]"),
}
"""Scripts whose words are stemmed as those of one language."""

_ENGLISH = """
a about an and are as at be been but by can did do does for from get had has have he her his how i
if in into is it its just me my not of on or our out she so than that the their them then there they
this to up us was we were what when where which who why will with would you your
"""

_UNCHANGED = frozenset({"", "english"})
"""Languages without stems beside those that every word has: English, and none."""

_SHORT_QUERY = 4
"""Words of a query up to which none need tell its language: then it may be any."""


class _Stemmers(local):
    """The stemmers by language, each made once in a thread: threads must not share one."""

    def __init__(self) -> None:
        self.of = cache(self._made)

    @staticmethod
    def _made(language: str) -> Any:
        stemmer = snowballstemmer.stemmer(language)
        stemmer.maxCacheSize = 0  # a long text has more words than it holds: it is slower with it
        return stemmer


STEMMERS = _Stemmers()

_LETTERS = range(4, 41)
"""Letters of a word that is stemmed."""

_WORD = re.compile(r"[^\W\d_]+")

_OF_WORD: dict[str, list[str]] = {}
for _language, _listed in {**_FUNCTION_WORDS, "english": _ENGLISH}.items():
    for _one in _listed.split():
        _OF_WORD.setdefault(_one, []).append(_language)


def language(text: str) -> str:
    """Return the language of the most function words in a text, "" if it has none.

    >>> language("Wann ist die Besprechung?"), language("When is it?"), language("Besprechung")
    ('german', 'english', '')
    """
    counts = _counts(text)
    most = max(counts.values(), default=0)
    # Of equals English, and else none: "de la" is French and Spanish.
    best = [one for one, count in counts.items() if count == most]
    return "english" if "english" in best else best[0] if len(best) == 1 else ""


def may_be_german(text: str) -> bool:
    """Tell whether a text has function words of German, and no more of any other language.

    >>> may_be_german("Wie zahlt die Firma Hollberg?"), may_be_german("Was Tim in New York?")
    (True, False)
    """
    counts = _counts(text)
    return counts["german"] == max(counts.values(), default=1)


def _counts(text: str) -> Counter[str]:
    """Return by language how many of its function words a text has."""
    known = map(_OF_WORD.get, _WORD.findall(text.casefold()), repeat(()))
    return Counter(chain.from_iterable(known))


def stems(text: str, words: list[str], preset: str = "") -> Iterator[str]:
    """Yield the stems of the words of a text in its language and in a preset one, but English.

    >>> [*stems("Die Rechnungen sind bezahlt", ["rechnungen", "bezahlt"])]
    ['rechnung', 'bezahlt']
    >>> [*stems("Laivat satamassa", ["laivat", "satamassa"], "finnish")]
    ['laiva', 'satam']
    """
    of_text, is_ascii = language(text), text.isascii()
    if is_ascii and {of_text, preset} <= _UNCHANGED:
        return
    for word in words:
        of_word = of_text if is_ascii else script(word) or of_text
        for one in dict.fromkeys([of_word, preset]):
            yield from _stem(word, one)


def stemmed(word: str, of: str) -> str:
    """Return the stem of a word in the language of its script, else in this one, but English.

    >>> stemmed("rechnungen", "german"), stemmed("ошибки", "german"), stemmed("logins", "english")
    ('rechnung', 'ошибк', 'logins')
    """
    return next(iter(_stem(word, script(word) or of)), word)


def query_stems(query: str, words: Collection[str], preset: str = "") -> dict[str, frozenset[str]]:
    """Return by word of a query the stems that it may have, in a preset language too.

    >>> "rechnung" in query_stems("Rechnungen Hollberg", ["rechnungen", "hollberg"])["rechnungen"]
    True
    """
    of_query = language(query)
    maybe = [*_FUNCTION_WORDS] if not of_query and len(words) <= _SHORT_QUERY else [of_query]

    def of_word(word: str) -> frozenset[str]:
        of_script = script(word)
        found = (_stem(word, one) for one in ([of_script] if of_script else [*maybe, preset]))
        return frozenset(chain.from_iterable(found))

    return {word: of_word(word) for word in words}


def script(word: str) -> str:
    """Return the language of the script that a word begins in, "" if several are written in it.

    >>> script("ошибки"), script("bugs")
    ('russian', '')
    """
    if word.isascii():
        return ""
    return next((one for one, letters in _SCRIPTS.items() if letters.match(word)), "")


@lru_cache(maxsize=50_000)
def _stem(word: str, of: str) -> tuple[str, ...]:
    """Return the stem of a word in a language, none in English or of what is no word."""
    if of in _UNCHANGED or len(word) not in _LETTERS or not word.isalpha():
        return ()
    return (str(STEMMERS.of(of).stemWord(word)),)

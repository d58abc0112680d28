"""The words that mark a claim: its denials, conditions and modal verbs, and cues of revision."""

import re

from .terms import stem

SILENT = frozenset(
    """
a an the this that these those there it its he she they we i you our your their his her us them me
is are was were be been being am has have had do does did will would to of in on at for with by from
as and or so also then please just really very any every all each both either itself get gets got
ever currently always become becomes go goes went set sets called enabled allowed permitted
decided agreed going let 请 note remember important ok okay yes call new per which who no longer now
instead but not
der die das den dem des ein eine einen einem einer ist sind wird werden wurde wir sie er es und oder
auf im am um zu mit von vom für alle jede jeder jedes immer
""".split()  # noqa: SIM905 (a hundred words as a list)
)
"""Words that a paraphrase adds and drops."""

_ALIKE = """
max maximum most limit limits limited cap
min minimum least
show shows showed shown display displays displayed
use uses used using utilise utilize nutzen nutzt verwenden verwendet
delete deletes deleted remove removes removed
want wants wanted like likes prefer prefers preferred
keep keeps kept retain retains retained store stores stored
start starts started begin begins began
write writes wrote written
choose chooses chose chosen pick picks picked
send sends sent
run runs ran running
build builds built
repository repositories repo repos
database databases db
"""
SYNONYMS = {word: line.split()[0] for line in _ALIKE.strip().splitlines() for word in line.split()}
"""One word for each of those that say the same, and for irregular forms."""

_CHOOSING = "use choose go take pick adopt be stay stick rely decide 使 用 选 择 采"
GENERIC = frozenset(map(stem, _CHOOSING.split()))
"""Verbs by which something is chosen, which say nothing of what it is for."""

_CLASSES = "database framework language library server provider queue cache backend frontend tool"
CLASSES = frozenset(map(stem, _CLASSES.split()))
"""What kind of thing a chosen one is."""

_DENYING = "not no never none nothing neither nor without off disabled forbidden prohibited"
NEGATIONS = frozenset(_DENYING.split())
"""Words that turn a claim into its opposite; two of them turn it back."""

MODES = {
    **dict.fromkeys(("?", "？"), "?"),
    **dict.fromkeys(("must", "shall", "required", "mandatory"), "must"),
    **dict.fromkeys(("may", "can", "could", "might", "optional"), "may"),
    **dict.fromkeys(("should", "ought"), "should"),
}
"""What words oblige to, allow or advise, and what only asks."""

CONDITIONS = frozenset(["if", "unless", "except", "only", "until", "when", "during", "while"])
"""Words that bound a claim, which no paraphrase drops."""

SCOPES = frozenset(["of", "for", "in", "on", "at", "by", "with", "per"]) | CONDITIONS
"""Words before what a claim is confined to."""

BEING = frozenset(["is", "are", "be", "now", "to", "ist", "sind", "due", "deadline", "until"])
"""Words before a date that say when something is, not when it happened."""

MEASURES = frozenset("个次名人条台家种件张位层页间倍元秒分天年")
"""Characters that follow a number that counts."""

PRONOUNS = frozenset(["it", "this", "that", "these", "those", "they", "he", "she", "es", "er"])
"""Subjects that another sentence names."""

_UNNAMED = """
keep retry allow need require use take cost last want wait add expect send show next max min only
exactly another top total after before within over under until than least most above below between
increase reduce save hold contain has have get give run write read
"""
NOT_NAMED = frozenset(_UNNAMED.split())
"""Words before a number that they do not name, as `room` does in `room 4 has 20 seats`."""

_REVISING = (
    r"(?:chang|rais|increas|reduc|updat|migrat|renam)(?:es?|ed|ing)|"
    r"(?:switch|lower|extend|bump|upgrad|shorten|convert|wechsel)(?:e?s|e?d|ing|n)?|change|update"
)
_CHANGE = rf"(?:{_REVISING}|mov(?:es?|ed|ing)|go(?:es)?|went|cuts?|drop(?:s|ped)?|gr[eo]ws?)"
CHANGED = re.compile(
    rf"\b(?:{_CHANGE}|back|replac(?:es?|ed|ing))\b(?=.*\b(?:to|by|with|zu|auf)\b)", re.IGNORECASE
)
"""Verbs of change, where what they lead to follows."""

CUE = re.compile(
    r"\b(?:now|instead|no longer|back to|rather than|correction|replac(?:es?|ed|ing))\b|"
    rf"\b(?:{_REVISING}) (?:from\b.*)?(?:back )?to\b",
    re.IGNORECASE,
)
"""What says that something else was said before."""

_WORDS = r"((?:[^\s,;]+ ){0,4}?[^\s,;]+?)"
_END = r"(?=\s*(?:$|[,;)]|\.(?:\s|$)|\b(?:we|for|because|since|and)\b))"
REVOKED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:instead of|rather than|in place of) {_WORDS}{_END}",
        rf"\b{_CHANGE}\b[^.;]*?\bfrom {_WORDS} (?:in)?to\b",
        rf"\b{_CHANGE}\b[^.;]*?\bvon {_WORDS} (?:auf|zu)\b",
        rf"\b(?:no longer|not) {_WORDS},? but\b",
        rf",\s*not {_WORDS}{_END}",
        rf"\breplac\w+ {_WORDS} (?:with|by)\b",
        rf"\breplaces {_WORDS}{_END}",
    )
)
"""What no longer holds, as the first group."""

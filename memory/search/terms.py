"""The terms of a text: stems of its words, without those that tell nothing of its topic."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain, groupby, pairwise

from ..dates import said_dates
from .languages import STEMMERS, may_be_german, query_stems, stems

CJK = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
"""Scripts that write words without spaces, Thai, Lao, Burmese and Khmer too, as regex ranges."""

LETTER = f"[^\\W{CJK}]"
"""A letter or digit of a script with spaces between words, as a regex."""

_INDIC = "\u0900-\u0963\u0970-\u0dff"
"""Scripts whose vowel signs are characters of their own, without their points, as regex ranges."""

_PIECE = re.compile(f"[{CJK}]+|(?:[^\\W_{CJK}]|[{_INDIC}])+")
"""A run of letters and digits, of CJK characters or of others."""

IDEOGRAPH = re.compile(f"[{CJK}]")
"""The first character of a piece whose terms are pairs of characters."""

_ODD = re.compile(rf"[^\s\x00-\x7f{CJK}{_INDIC}]")
"""A character that may have a mark, or be one; most texts have none to look up."""

_LETTERS = {"ß": "ss", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
_LETTERS |= {"\u0131": "i", "ħ": "h", "ŧ": "t"}
"""Letters that have no mark to take off, and what people write for them."""

_KEPT = frozenset("й")
"""Letters that are others than their base letter."""

_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})

_CACHED = 50_000  # words whose stems and terms are cached: 10 MB when full
_SHORTEST = 3  # characters of a keyword at least, CJK pairs aside

_STOP_PHRASES = re.compile(r"\b(carry on|go ahead|go on|keep going|the thing)\b")
"""Phrases that only keep the talk going; removed from a query before it is split into words."""

_STOP_WORDS = frozenset(
    """
about above actually after again against ain all already also although always am an and another
any anyone anything anyway are aren around as ask asked at back basically be because been before
being below between bit both but by bye came can cannot come comes continue could couldn did
didn do does doesn doing don done down during each else even ever every everyone everything few
for from further get gets getting go goes going gone gonna got gotta gotten had hadn has hasn
have haven having he hello her here hers herself hey hi him himself his how however if in
instead into is isn it its itself just kind kinda know known knows later let lets like ll lot
lots made make makes many may maybe me mean means might more most much must my myself never next
no nope nor not now of off often oh ok okay on once one ones only or other our ours ourselves
out over own per perhaps please pretty proceed quite rather re really right said same say says
see seen shall she should shouldn since so some someone something sometimes soon sorry sort
still stuff such sure take takes tell tells than thank thanks that the their theirs them
themselves then there therefore these they thing things think thinks this those though thought
through thus to today told too took under until up upon us use used using usually ve very via
wanna want wanted wants was wasn way we welcome well went were weren what when where which while
who whom whose why will with within without would wouldn wow yeah yep yes yet you your yours
yourself yourselves
""".split()  # noqa: SIM905 (three hundred lines as a list)
)
"""English words without a topic; contractions are split at their apostrophe."""

_SPELLINGS = tuple(
    (mark, re.compile(pattern), spelling)
    for mark, pattern, spelling in (
        ("our", r"^(od|\w{3,})our(s|ed|ing|ites?|able|al|ers?|ful|hoods?|less|ly)?$", r"\1or\2"),
        # Not `revise`, `precise` and `concise`, whose nouns are not changed, and `paradise`.
        (
            "s",
            r"(?<=\w{3}[iy])(?<!.vi|eci|nci|adi)s(?=(e[ds]?|ers?|ing(ly)?|able|ation\w*)$)",
            "z",
        ),
        ("logue", r"(?<=log)ue(?=s?$)", ""),
        ("re", r"(cent|heat|met|lit|\bfib)re(s?)$", r"\1er\2"),
        ("enc", r"^(lic|def|off|pret)enc(?=e|ing$)", r"\1ens"),
        ("author", r"^authori[sz].*", "auth"),  # its stem is that of `author`
    )
)
"""British spellings and their replacement, which need be no word: `surprise` to `surprize`.

Each has letters that such a word has, so that few of the words of a long text are looked at.
"""

_FAMILIES = """
admin administration, advert advertisement, aging ageing, airplane aeroplane, aluminum aluminium,
analyze analysis, app application, argument arg, async asynchronous, attribute attr, auth
authentication, bike bicycle, certificate cert, child children, command cmd, config configuration
cfg, context ctx, cosy cozy, counselor counsellor, credential creds, database db dbs, dependency
deps, dev development, dial diall, directory dir, doc document, donut doughnut, environment env,
favorite fav, focus focussed, foot feet, fuel fuell, function func, gray grey, image img,
implementation impl, info information, infra infrastructure, intro introduction, jewelry jewellery,
judgment judgement, kubernetes k8s, library lib, math maths, message msg, microphone mic, mom mum,
mouse mice, mustache moustache, object obj, package pkg, pajamas pyjamas, param parameter, password
pwd passwd, performance perf, photo photograph, picture pic, plow plough, postgres postgresql,
practice practise, production prod, program programme, repo repository, request req, skeptical
sceptical, skill skil, statistics stats, sync synchronize, technology tech, television tv, tooth
teeth, transaction txn, variable var, woolen woollen, yogurt yoghurt
"""
"""Words with one meaning: short and long forms, and spellings that follow no rule."""


def folded(text: str) -> str:
    r"""Return a text as its words are compared: NFKC, case folded, letters without marks.

    Marks are taken off Latin, Greek and Cyrillic letters, and points off Arabic and Hebrew ones;
    digits of any script become digits, characters that are not seen go.

    >>> folded("Au\u00adth"), folded("Besançon, Łódź"), folded("٤٠١")
    ('auth', 'besancon, lodz', '401')
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    if plain.isascii():
        return plain
    return plain.translate({ord(odd): _without_marks(odd) for odd in {*_ODD.findall(plain)}})


def spellings(text: str) -> tuple[str, ...]:
    """Return a text, and how it is written where umlauts are two letters, if it has any.

    >>> spellings("Müller"), spellings("café")
    (('Müller', 'mueller'), ('café',))
    """
    if text.isascii():
        return (text,)
    plain = unicodedata.normalize("NFC", text).casefold()
    spelled = plain.translate(_UMLAUTS)
    return (text, spelled) if spelled != plain else (text,)


@lru_cache(maxsize=10_000)
def _without_marks(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Nd":
        return str(unicodedata.decimal(character))
    if kind[0] == "M" or kind == "Cf":
        return ""
    if kind[0] != "L" or character in _KEPT:
        return character
    if character in _LETTERS:
        return _LETTERS[character]
    name = unicodedata.name(character, "")
    if not name.startswith(("LATIN", "GREEK", "CYRILLIC")):
        return character
    parts = unicodedata.normalize("NFD", character)
    base = "".join(part for part in parts if unicodedata.category(part)[0] != "M")
    return _LETTERS.get(base, base)


def is_pair(term: str) -> bool:
    """Tell whether a term is a pair of CJK characters, or a longer run of them.

    >>> is_pair("数据"), is_pair("port")
    (True, False)
    """
    return len(term) > 1 and IDEOGRAPH.match(term) is not None


def words(text: str) -> list[str]:
    """Return the normalised words of a text in order, CJK text as pairs of characters.

    >>> words("Fixed the 数据库")
    ['fixed', 'the', '数据', '据库']
    """
    pieces: list[str] = _PIECE.findall(folded(text))
    if text.isascii():
        return pieces
    parts = (map("".join, pairwise(piece)) if is_pair(piece) else [piece] for piece in pieces)
    return [*chain.from_iterable(parts)]


def terms(text: str) -> list[str]:
    """Return the terms of a text in order: the stems of its words without stop words.

    >>> terms("The refresh tokens weren't called, 401! 修复登录")
    ['refresh', 'token', 'call', '401', '修复', '复登', '登录']
    """
    return [term for word in words(text) if (term := _term(word))]


def content(text: str) -> list[str]:
    """Return the terms of a text that can be keywords.

    >>> content("The port of the 数据 is 8443")
    ['port', '数据', '8443']
    """
    return long_enough(terms(text))


def long_enough(terms: Iterable[str]) -> list[str]:
    """Return the terms that can be keywords: those of 3 characters and more, and CJK pairs.

    >>> long_enough(["db", "port", "数据"])
    ['port', '数据']
    """
    return [term for term in terms if len(term) >= _SHORTEST or is_pair(term)]


def query_terms(query: str, *, any_name: bool = False) -> list[str]:
    """Return the distinct terms of a query without its request phrases; none if it has no topic.

    Names that are written like stop words are terms; with `any_name`, if there is no other term,
    each word that may be a name is one.

    >>> query_terms("What was the fix for the auth thing?"), query_terms("ok, carry on")
    (['fix', 'auth'], [])
    >>> query_terms("What did Will say?"), query_terms("will", any_name=True)
    (['will'], ['will'])
    """
    topic = _STOP_PHRASES.sub(" ", _LEAD.sub("", folded(query)))
    found = [*terms(topic), *_names(query)]
    if any_name and not found:
        found = [word for word in words(topic) if word not in _NO_NAMES]
    return list(dict.fromkeys(found))


def other_stems(query: str, language: str = "") -> dict[str, frozenset[str]]:
    """Return by term of a query the stems that its words have in other languages than English.

    >>> other_stems("sind Rechnungen da?")["rechnungen"]
    frozenset({'rechnung'})
    """
    found: dict[str, frozenset[str]] = {}
    for word, stems_of in query_stems(query, words(query), language).items():
        if term := "".join(terms(word)):
            found[term] = found.get(term, frozenset()) | stems_of - {term}
    return found


def shared_terms(query: str, text: str) -> int:
    """Return how many terms of a query a text says.

    >>> shared_terms("Which port?", "The ports are 80 and 443.")
    1
    """
    return len({*query_terms(query)}.intersection(terms(text)))


def unsaid_words(query: str, absent: Collection[str]) -> list[str]:
    """Return the words of a query whose terms are among these, as they are written there.

    >>> unsaid_words("401 Xylophones", {"xylophon"})
    ['Xylophones']
    """
    runs = re.findall(r"[^\W_]+", query)
    return [run for run in runs if any(term in absent for term in query_terms(run))]


_NAMING = re.compile(r"[^\s\"“”„'()\[\]{}<>,;!?]+")

_CLAUSE = re.compile(r"[^\W\d](?:[^\W\d]|[\s'’-])*")

_TITLE = re.compile(
    r"(?<![^\W_])(?:(?:Mr|Mrs|Ms|Miss|Dr|Prof|Professor|Doctor|Sir|Captain|Aunt|Uncle|"
    r"Herrn?|Frau|Tante|Onkel|Mme|Madame|Monsieur|M|Señora?)\.?|[A-Z]\.)(?=\s+[^\W\d_a-z])|"
    r"(?<=\w )(?:GmbH|AG|KG|SE|SA|SARL|BV|Inc|Ltd|Limited|LLC|PLC|Corp|Corporation|Co|Company|"
    r"Group|Holdings?|Industries)\b\.?"
)
"""A title or an initial before a name, or the form of a company after it: no part of the name."""


def title_terms(query: str) -> frozenset[str]:
    """Return the terms of titles and of forms of companies, which a text may leave out.

    >>> sorted(title_terms("Did Dr. Hollberg of Hollberg Industries call?"))
    ['dr', 'industri']
    """
    return frozenset().union(*(terms(match[0]) for match in _TITLE.finditer(query)))


def names(query: str) -> list[frozenset[str]]:
    """Return the terms of each word of a query that names something.

    It is capitalised inside a sentence, or has digits or the signs of an identifier.

    >>> [sorted(terms) for terms in names("Did Maria see build_queue?")]
    [['maria'], ['build', 'buildqueu', 'queue']]
    >>> [sorted(terms) for terms in names("Did Dr. Hollberg call?")]
    [['hollberg']]
    """
    found: list[frozenset[str]] = []
    query = _TITLE.sub("x", query)
    for match in _NAMING.finditer(query):
        word = match[0].rstrip(".:")
        inside = not _BEGINS.search(query[max(0, match.start() - 8) : match.start()])
        odd = any(map(str.isdigit, word)) or any(sign in word for sign in "_/\\@.:#+&")
        if odd or word[1:].lower() != word[1:] or (inside and word[:1].isupper()):
            found.append(frozenset([*query_terms(word), *further_terms(word)]))
    return [terms for terms in found if terms]


def leading_name(query: str) -> frozenset[str]:
    """Return the terms of the first word of a list of key words, if it is capitalised.

    The first word of a sentence is capitalised in any case.

    >>> leading_name("Hollberg payment"), leading_name("Payment of Hollberg")
    (frozenset({'hollberg'}), frozenset())
    """
    first, *others = words(query) or [""]
    is_list = bool(others) and all(map(_term, others))
    return frozenset(terms(first)) if is_list and query.lstrip()[:1].isupper() else frozenset()


def names_of_words(query: str) -> Iterator[frozenset[str]]:
    """Yield the terms of each name of several words in a sentence.

    Names that stand alone side by side, as in a list of key words, are none, and German has none:
    it writes each noun like a name.

    >>> [sorted(terms) for terms in names_of_words("Has Tim been to New York City?")]
    [['citi', 'new', 'york']]
    >>> list(names_of_words("Hollberg Nordpay"))
    []
    """
    if may_be_german(query):
        return
    for clause in _CLAUSE.findall(_TITLE.sub("x", query)):
        runs = [[*run] for _, run in groupby(clause.split(), lambda word: word[:1].isupper())]
        for run in runs[1:]:
            if len(run) > 1 and run[0][:1].isupper():
                yield frozenset(term for word in run for term in query_terms(word))


def further_terms(query: str) -> list[str]:
    """Return terms of a query that a text may have in place of those of `query_terms`, or beside.

    They are words as they are spelled, identifiers whole and in parts, numbers with their units.

    >>> further_terms("maxRetryCount"), further_terms("10.20.1.7"), further_terms("25 MB")
    (['max', 'retri', 'count'], ['102017'], ['25mb'])
    """
    known = {*query_terms(query)}
    return [term for term in dict.fromkeys(_further(query)) if term not in known]


def indexed(text: str, language: str = "") -> list[str]:
    """Return the distinct terms to index a text by; the characters of CJK pairs are terms too.

    With a `language` the stems that its words have there are among them.

    >>> indexed("修复 axios")
    ['修复', 'axio', '修', '复']
    >>> indexed("at 10.1.20.7"), indexed("plan B with Will")
    (['10', '1', '20', '7', '101207'], ['plan', 'b', 'will'])
    """
    said = words(text)
    whole_terms = [term for word in said if (term := _term(word))]
    pairs = () if text.isascii() else filter(is_pair, whole_terms)
    more = ("".join(pairs), _names(text), _further(text), stems(text, said, language))
    return list(dict.fromkeys(chain(whole_terms, *more)))


_LONGEST_WHOLE = 64  # characters of an identifier that is a term as a whole: a page may be base64
_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:(?:[._/:@+\-&\\]|(?<=\d),(?=\d))[^\W_]+)+")
"""An address, a version, a path or another identifier with its parts."""

_GROUPS = re.compile(r"(?:\b[A-Z]{2}|\+|\(|\b)\d{2,4}(?:[ \-/()]{1,2}\d{2,8}){1,8}\b|\b\d{9,15}\b")
"""Groups of digits: a telephone number or an account."""

_DIGIT = re.compile(r"\d")

_TAIL = 8
"""The last digits of a telephone number, by which it is found whatever stands before them."""

_CODE = re.compile(r"\b([A-Z]{1,4}(?:-[A-Z]{1,4})?)[ -](\d{2,8})\b")
"""Letters and a number: a plate, a ticket, an error."""

_PREFIXED = re.compile(r"\b0x([0-9a-fA-F]{4,16})\b")

_UNIT = re.compile(r"(?<![\w.,])([0-9][0-9.,]*) ?([A-Za-zµ°€$]{1,4})\b")
_SIGNED = re.compile(r"\b([A-Za-z])(\+\+|#)(?!\w)")
_SIGNS = {"++": "plusplus", "#": "sharp"}
_HASH = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b", re.IGNORECASE)
_SHORT_HASH = 7  # characters of a hash that tools show
_HEX = re.compile(r"(?=[A-F]*\d)[\dA-F]{7,}")
"""A hash in capitals, or the beginning of one, whose letters and digits are no parts."""

_CAMEL = re.compile(r"\b(?=[^\WA-Z]*+[A-Z])(?=\w*(?:[a-z\d][A-Z]|[A-Z]{2}[a-z]{2}))[^\W_]+\b")
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SEPARATORS = re.compile(r"[\W_]+")
_LETTERS_ONLY = re.compile(rf"[^\W\d_{CJK}{_INDIC}]+")


def _further(text: str) -> Iterator[str]:
    """Yield the terms of a text beyond its words; most texts have no digit, and few such terms."""
    has_digit = _DIGIT.search(text) is not None
    patterns = (_JOINED, _GROUPS) if has_digit else (_JOINED,)
    for pattern in patterns:
        for match in pattern.finditer(text):
            joined = _SEPARATORS.sub("", match[0])
            if len(joined) <= _LONGEST_WHOLE:
                yield _term(folded(joined))
            if joined.isdigit() and len(joined) > _TAIL:
                yield joined[-_TAIL:]
    if has_digit:
        yield from _with_digits(text)
    yield from _parts_of_compounds(text)
    for letter, sign in _SIGNED.findall(text):
        yield letter.lower() + _SIGNS[sign]
    for match in _CAMEL.finditer(text):
        if not _HEX.fullmatch(match[0]):
            yield from filter(None, map(_term, map(folded, _CAMEL_PART.findall(match[0]))))
    if not text.isascii():
        yield from _spelled(text)


def _with_digits(text: str) -> Iterator[str]:
    """Yield codes, numbers, dates, measures and hashes."""
    yield from (_term(_SEPARATORS.sub("", folded("".join(code)))) for code in _CODE.findall(text))
    yield from (_term(digits.lower()) for digits in _PREFIXED.findall(text))
    yield from said_dates(text)
    for number, unit in _UNIT.findall(text):
        if (name := folded(unit)) not in _STOP_WORDS:
            digits = _SEPARATORS.sub("", number)
            yield from (term for word in (digits, name, digits + name) if (term := _term(word)))
    yield from (_term(match[0][:_SHORT_HASH].lower()) for match in _HASH.finditer(text))


_COMPOUNDING = re.compile(
    r"(?i)\b(?:das|dem|der|des|det|die|ein|eine[nr]?|een|het|ikke|ist|mit|nicht|och|und|wir|zu[mr]?)\b"
)
"""Words of languages that write compounds as one word."""

_COMPOUND = re.compile(r"[^\W\d_]{12,40}")
_LEAST_PART = 5
"""Letters of a part of a compound, so that endings are none."""


def _parts_of_compounds(text: str) -> Iterator[str]:
    """Yield what a long word of such a language may begin or end with.

    A list of words would tell which of them are words; a query asks for no others.
    """
    if not (long := _COMPOUND.findall(text)) or not _COMPOUNDING.search(text):
        return
    for word in map(folded, long):
        for at in range(_LEAST_PART, len(word) - _LEAST_PART + 1):
            yield from filter(None, (_term(word[:at]), _term(word[at:])))


def _spelled(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFC", text).casefold()
    for word in dict.fromkeys(_LETTERS_ONLY.findall(plain)):
        if not word.isascii() and folded(word) != word:
            yield word
        if (spelled := word.translate(_UMLAUTS)) != word:
            yield _term(folded(spelled))


def both_ends(text: str, most: int) -> str:
    r"""Return a text, of one with more than `most` characters half of these at each end.

    What is searched for in pasted text stands there: a log tells most in its last line.

    >>> both_ends("abcdef", 6), both_ends("abcdefg", 4)
    ('abcdef', 'ab\nfg')
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n{text[-half:]}"


_CAPITAL = re.compile(r"(?<![^\W_])(?:[A-Z]{2,}|[A-Z][a-z]*)(?![\w'’])")
_BEGINS = re.compile(r"(?:\A|[.!?:;\n\"“”(\[*•>|-])\s*\Z")
"""What stands before a word that begins a sentence, a line or a quotation."""

_BEGINNING_NAME = re.compile(
    r"\b(Will|May|Don)(?: (?!(?:a|an|all|any|anyone|be|everyone|he|her|his|i|in|it|its|my|no|not|"
    r"one|our|she|some|someone|that|the|their|there|these|they|this|those|us|we|you|your)\b)"
    r"(?=[a-z])|['’]s\b)"
)
"""A name at the beginning of a sentence, where "Will you" and "May I" stand as well."""

_GOES_ON = re.compile(r"(?i)\s+(?:on|ahead)\b|[!,]")
"""What stands after "Go" where it only keeps a talk going; else it is a language and a game."""

_NO_NAMES = frozenset(
    """
a again an bye continue go hello hey hi i more next no ok okay on please proceed thank thanks the
yes
""".split()  # noqa: SIM905 (as a list it is longer)
)
"""Words that are no names by themselves, however they are written: they only keep a talk going."""


def _names(text: str) -> Iterator[str]:
    for match in _CAPITAL.finditer(text):
        word = match[0].lower()
        if not (word in _STOP_WORDS or len(word) == 1):
            continue
        all_capitals = len(word) > 1 and match[0].isupper()
        before = text[max(0, match.start() - 8) : match.start()]
        inside = not _BEGINS.search(before) and before.strip()
        if word in _NO_NAMES and (match[0] != "Go" or _GOES_ON.match(text, match.end())):
            continue
        if all_capitals or inside:
            yield word
    for match in _BEGINNING_NAME.finditer(text):
        yield match[1].lower()


@lru_cache(maxsize=_CACHED)
def _term(word: str) -> str:
    """Return the term of a word, empty for a stop word or a single letter."""
    if not word.isascii() and IDEOGRAPH.match(word):
        return word
    if word in _STOP_WORDS or (len(word) == 1 and not word.isdigit()):
        return ""
    root = stem(word)
    return _SAME.get(root, root)


def stem(word: str) -> str:
    """Return the stem of an English word in American spelling; other words may lose an ending.

    A word with a digit is its own stem.

    >>> stem("favourites"), stem("organised"), stem("organizer"), stem("v2s")
    ('favorit', 'organiz', 'organiz', 'v2s')
    """
    if not word.isalpha() and _DIGIT.search(word):
        return word
    for mark, pattern, spelling in _SPELLINGS:
        if mark in word:
            word = pattern.sub(spelling, word)
    return str(STEMMERS.of("english").stemWord(word))


_STEMS = [[stem(word) for word in family.split()] for family in _FAMILIES.split(",")]
_SAME = {root: stems[0] for stems in _STEMS for root in stems}
"""The first stem of its family, by stem."""

# Words that talks on any topic have.
_ENGLISH = """
able absolutely add amazing answer appreciate awesome bad beautiful best better big bring busy buy
call care chance change chat check choose cool could course day deal definitely difference different
difficult easy end enjoy enough evening example excited experience explain fact family fantastic
favorite favourite feel feeling felt find fine first found free friend fun future give glad good
grateful great guess guy hand happen happy hard hear heard help hope hour idea important information
inspire inspiring interesting job join journey keep keeping last late learn leave left let life list
little live long look love lovely luck making man matter message mind minute moment month morning
move name need new news nice night note old open part passion passionate people perfect person place
plan play point possible problem proud put question ready real reason recommend relax remember rest
right run safe saturday sense share short show side simple situation small soon sound special spend
start stay step stop story style suggest sunday super support talk team thing think three time tip
tomorrow tonight totally try turn two type understand use useful wait watch way week weekend welcome
whole wish wonder wonderful word work world worry worth write wrong year yesterday
"""
# Pairs of characters.
_CHINESE = """
可以 什么 怎么 为什 么样 么时 时候 这个 那个 这些 那些 这是 我们 你们 他们 没有
不是 就是 还有 一个 一下 一些 一句 一条 帮我 请帮 请问 好的 问题 需要 应该 如果
那么 可能 现在 今天 明天 知道 觉得 有什 么可 以帮 帮你 你的 我的 的吗 还是 或者
因为 所以 但是 然后 已经 谢谢 告诉 给我 想要 我想 的话 是否 以后 之后 哪些 哪个
继续
"""

_CHATTER = frozenset([*content(_ENGLISH), *_CHINESE.split()])
"""Terms of talks on any topic; a message of nothing else refers to no topic."""


def tells(term: str) -> bool:
    """Tell whether a term can say what a text is about, as words of any talk cannot.

    >>> tells("axio"), tells("time"), tells("数据")
    (True, False, True)
    """
    return bool(long_enough([term])) and term not in _CHATTER


def telling(text: str) -> frozenset[str]:
    """Return the terms of a text that tell its topic, without those of any talk.

    >>> sorted(telling("Good idea, thanks! What about the login tokens?"))
    ['login', 'token']
    """
    return frozenset(long_enough(query_terms(text))) - _CHATTER


# English requests with and without introductions; other languages are known by the mark only.
_ASKS = re.compile(r"[?？][\"'”’)*]*$")
_BEFORE = (
    r"(?:(?:again|and|but|hey|hi|just|now|ok|okay|please|so|then|well|"
    r"(?:can|could|will|would) you|do you (?:know|recall|remember))\b[\s,]*)*"
)
_BE_OR_DO = r"(?:'s|\s+(?:is|are|was|were|do|does|did|has|have|had|can|should|will))\b"
_OPEN = r"(?:all|any\w*|every\w*|how|if|what|when|where|whether|which|who|whose|why)\b"
# The beginning of a request to find something, up to what shall be found.
_LEAD = re.compile(
    rf"\A\s*{_BEFORE}(?:(?:find|recall)(?: out)? (?={_OPEN})|(?:give|remind|show) (?:me|us)\b|"
    r"look up\b|(?:look|search)\b[^,;:]{0,40}? for\b)"
)
_REQUESTS = re.compile(
    rf"(?i){_BEFORE}(?:(?:give|show|tell) (?:me|us)\b|remind (?:me|us)\b(?! (?:that|to)\b)|"
    rf"(?:check|find|list|recall|see)(?: out)? {_OPEN}|"
    r"look up\b|(?:look|search)\b[^,;:]* for\b|"
    rf"(?:what|which|how) (?!i |it |he |she |that |they |this |we |you )\w+{_BE_OR_DO}|"
    rf"(?:how|what|when|where|which|who|why){_BE_OR_DO})"
)


_STATES = re.compile(
    r"(?i)(?:i|i['’]\w+|we|we['’]\w+|my|our|he|she|they|it|the|this|there)\b[^,;:?]{12,}[,;:]"
)
"""The beginning of a statement after which the sentence asks."""


def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks for something, with a question mark or without.

    One that begins with a statement is none: "I booked a table for two, can you check it?".

    >>> is_question("Which port?"), is_question("Tell me about the port.")
    (True, True)
    """
    asks = bool(_ASKS.search(sentence)) and not _STATES.match(sentence.strip())
    return asks or bool(_REQUESTS.match(sentence))

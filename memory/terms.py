"""The terms of a text: stems of its words, without those that tell nothing of its topic."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, pairwise

import snowballstemmer

CJK = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
"""Scripts that write words without spaces, Thai, Lao, Burmese and Khmer too, as regex ranges."""

_PIECE = re.compile(f"[{CJK}]+|[^\\W_{CJK}]+")
"""A run of letters and digits, of CJK characters or of others."""

IDEOGRAPH = re.compile(f"[{CJK}]")
"""The first character of a piece whose terms are pairs of characters."""

_ODD = re.compile(rf"[^\w\s\x00-\x7f{CJK}]")
"""A character that may be a mark or a format character; most texts have none to look up."""

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
    (re.compile(pattern), spelling)
    for pattern, spelling in (
        (r"^(od|\w{3,})our(s|ed|ing|ites?|able|al|ers?|ful|hoods?|less|ly)?$", r"\1or\2"),
        # Not `revise`, `precise` and `concise`, whose nouns are not changed, and `paradise`.
        (r"(?<=\w{3}[iy])(?<!.vi|eci|nci|adi)s(?=(e[ds]?|ers?|ing(ly)?|able|ation\w*)$)", "z"),
        (r"(?<=log)ue(?=s?$)", ""),
        (r"(cent|heat|met|lit|\bfib)re(s?)$", r"\1er\2"),
        (r"^(lic|def|off|pret)enc(?=e|ing$)", r"\1ens"),
        (r"^authori[sz].*", "auth"),  # its stem is that of `author`
    )
)
"""British spellings and their replacement, which need be no word: `surprise` to `surprize`."""

_FAMILIES = """
admin administration, advert advertisement, aging ageing, airplane aeroplane, aluminum aluminium,
analyze analysis, app application, argument arg, async asynchronous, attribute attr, auth
authentication, bike bicycle, certificate cert, command cmd, config configuration cfg, context
ctx, cosy cozy, counselor counsellor, credential creds, database db dbs, dependency deps, dev
development, dial diall, directory dir, doc document, donut doughnut, environment env, favorite
fav, focus focussed, fuel fuell, function func, gray grey, image img, implementation impl, info
information, infra infrastructure, intro introduction, jewelry jewellery, judgment judgement,
kubernetes k8s, library lib, math maths, message msg, microphone mic, mom mum, mustache moustache,
object obj, package pkg, pajamas pyjamas, param parameter, password pwd passwd, performance perf,
photo photograph, picture pic, plow plough, postgres postgresql, practice practise, production
prod, program programme, repo repository, request req, skeptical sceptical, skill skil, statistics
stats, sync synchronize, technology tech, television tv, transaction txn, variable var, woolen
woollen, yogurt yoghurt
"""
"""Words with one meaning: short and long forms, and spellings that follow no rule."""


def folded(text: str) -> str:
    r"""Return a text normalised for comparison: NFKC, case folded, no marks or format characters.

    >>> folded("Au\u00adth")
    'auth'
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    if plain.isascii():
        return plain
    kinds = {character: unicodedata.category(character) for character in _ODD.findall(plain)}
    removed = {ord(odd): None for odd, kind in kinds.items() if kind[0] == "M" or kind == "Cf"}
    return plain.translate(removed)


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
    pieces = _PIECE.findall(folded(text))
    parts = (map("".join, pairwise(piece)) if is_pair(piece) else [piece] for piece in pieces)
    return pieces if text.isascii() else [*chain.from_iterable(parts)]


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


def query_terms(query: str) -> list[str]:
    """Return the distinct terms of a query without its request phrases; none if it has no topic.

    >>> query_terms("What was the fix for the auth thing?"), query_terms("ok, carry on")
    (['fix', 'auth'], [])
    """
    topic = _STOP_PHRASES.sub(" ", _LEAD.sub("", folded(query)))
    return list(dict.fromkeys(terms(topic)))


def indexed(text: str) -> list[str]:
    """Return the distinct terms to index a text by; the characters of CJK pairs are terms too.

    >>> indexed("修复 axios")
    ['修复', 'axio', '修', '复']
    """
    whole_terms = terms(text)
    return list(dict.fromkeys([*whole_terms, *"".join(filter(is_pair, whole_terms))]))


@lru_cache(maxsize=_CACHED)
def _term(word: str) -> str:
    """Return the term of a word, empty for a stop word or a single letter."""
    if IDEOGRAPH.match(word):
        return word
    if word in _STOP_WORDS or (len(word) == 1 and not word.isdigit()):
        return ""
    root = stem(word)
    return _SAME.get(root, root)


@lru_cache(maxsize=_CACHED)
def stem(word: str) -> str:
    """Return the stem of an English word in American spelling; other words may lose an ending.

    >>> stem("favourites"), stem("organised"), stem("organizer")
    ('favorit', 'organiz', 'organiz')
    """
    for pattern, spelling in _SPELLINGS:
        word = pattern.sub(spelling, word)
    # A new stemmer each time: it has state, so threads must not share one.
    return str(snowballstemmer.stemmer("english").stemWord(word))


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


def is_question(sentence: str) -> bool:
    """Tell whether a sentence asks for something, with a question mark or without.

    >>> is_question("Which port?"), is_question("Tell me about the port.")
    (True, True)
    """
    return bool(_ASKS.search(sentence) or _REQUESTS.match(sentence))

"""The protected core: goals, constraints and decisions of a log, found by rules without a model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..compressions import Item, Kind
from ..efforts import Effort
from ..messages import text as text_of
from ..transcript import speaker
from ..turn import StoredTurn
from .extract import Extracted, legible
from .verify import SENTENCE_END, verify

_BULLET = re.compile(r"^(?:\s|[-*•>#]+\s|\d{1,3}[.)]\s)+")
"""Marks of lists, quotes and headings before a sentence."""


def sentences(text: str) -> Iterator[str]:
    r"""Yield the sentences and lines of a text, without the marks of lists before them.

    >>> list(sentences("It works, e.g. here. Is it fast?\n- Yes.\n1. 很快。真的！"))
    ['It works, e.g. here.', 'Is it fast?', 'Yes.', '很快。', '真的！']
    """
    ends = (end.end() for end in SENTENCE_END.finditer(text))
    for begin, end in pairwise([0, *ends, len(text)]):
        sentence = _BULLET.sub("", text[begin:end]).strip()
        if any(map(str.isalnum, sentence)):
            yield sentence


_IDLE = r"(?:worry|know|think|see|mind|understand|remember|believe|hesitate)"
"""Verbs after "do not" that forbid nothing."""

_RULES = {
    Kind.GOAL: (
        r"\b(?:our|the|my|new|main|overall) (?:goal|aim|objective)\b",
        r"\b(?:goal|objective) is\b",
        "目标|目標",
    ),
    Kind.CONSTRAINT: (
        r"\b(?:must|never|always|shall|mandatory|forbidden|prohibited|not allowed|hard limit)\b",
        r"\b(?:at most|at least|no (?:more|less|fewer|later|earlier) than|not exceed)\b",
        rf"\b(?:do not|don[’']t)(?! {_IDLE}\b)",
        r"\b(?:has|have|need|needs) to (?:be|stay|remain|keep|work|run|support)\b",
        r"\b(?:may not|can(?:not|[’']t) (?:be|use|have|change)|under no circumstances)\b",
        "必须|必須|务必|務必|一定要|不得|不能|不可|不许|不許|禁止|严禁|嚴禁|绝不|絕不|决不",
        "永远|永遠|始终|始終|总是|總是|最多|至多|至少|不超过|不超過|不要|只能|仅限|僅限",
    ),
    Kind.DECISION: (
        r"\b(?:decided|decision|we agreed|agreed to|chose|chosen|settled on|opted for|picked)\b",
        r"\b(?:we|i)(?: will|[’']ll|(?: a|[’'])re going to) (?:use|go with|take|keep|switch)\b",
        r"\b(?:let[’']s|let us) (?:use|go with|take|keep|stick|switch|stay)\b",
        r"\b(?:because|the reason is|instead of|rather than)\b",
        "决定|決定|选择|選擇|选定|選定|采用|採用|我们用|我們用|就用|改用|决策|決策",
        "我们将使用|我們將使用|因为|因為|由于|由於|原因是",
    ),
}
"""Phrases that mark a goal, a hard constraint or a decision, in English and Chinese."""

_PATTERNS = {kind: re.compile("|".join(rules), re.IGNORECASE) for kind, rules in _RULES.items()}


def kind_of(sentence: str) -> Kind | None:
    """Return the first of goal, constraint and decision that a sentence states, None if none.

    >>> kind_of("We will use PostgreSQL because the team knows it."), kind_of("Must it be fast?")
    (<Kind.DECISION: 'decision'>, None)
    """
    if sentence.endswith(("?", "？")):
        return None
    return next((kind for kind, rule in _PATTERNS.items() if rule.search(sentence)), None)


MOST_SENTENCES = 200
"""Sentences of a core at most; constraints stay before others, and newer ones before older."""

_LONGEST_SENTENCE = 600  # characters of a sentence at most; a longer one is pasted text
_STATING = frozenset({"human", "ai"})  # the messages that state something; a tool's output does not

_FENCE = re.compile(r"^```.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)
"""A block of code, whose comments are no sentences that somebody said."""


@dataclass(frozen=True, slots=True)
class Goals:
    """An effort, the goal that it was opened for, and each change: turn, new goal and reason.

    `recorded` are the quotes that are due from these, as the log has none of them.
    """

    effort: Effort
    original: str
    changes: tuple[tuple[int, str, str], ...] = ()
    recorded: tuple[Item, ...] = ()


def core(goals: Goals, turns: Sequence[StoredTurn]) -> tuple[Item, ...]:
    """Return the protected core of a log as quotes, in the order of their turns.

    It has the goals and constraints that are in the log word for word, and the sentences of the
    user and the model that rules find. Of sentences with the same words the newest stays.
    """
    stated = [
        Extracted(quote=goals.original, kind=Kind.GOAL),
        *(Extracted(quote=goal, kind=Kind.GOAL, turn=turn) for turn, goal, _ in goals.changes),
        *(Extracted(quote=text, kind=Kind.DECISION, turn=turn) for turn, _, text in goals.changes),
        Extracted(quote=goals.effort.goal, kind=Kind.GOAL),
        *(Extracted(quote=text, kind=Kind.CONSTRAINT) for text in goals.effort.constraints),
    ]
    in_log = [verdict.item for verdict in verify(stated, turns) if verdict.item]
    newest = {
        " ".join(re.findall(r"\w+", item.quote.casefold())): item
        for item in (*in_log, *_by_rules(turns))
    }
    by_rank = sorted(newest.values(), key=lambda item: (item.kind is Kind.CONSTRAINT, item.turn))
    return tuple(sorted(by_rank[-MOST_SENTENCES:], key=lambda item: item.turn))


def _by_rules(turns: Sequence[StoredTurn]) -> Iterator[Item]:
    """Yield the sentences that state a goal, a constraint or a decision, code left out."""
    for turn in legible(turns):
        for message in turn.messages:
            words = _FENCE.sub("\n", text_of(message)) if message.type in _STATING else ""
            for sentence in sentences(words):
                kind = kind_of(sentence) if len(sentence) <= _LONGEST_SENTENCE else None
                if kind:
                    yield Item(kind, sentence, turn.number, speaker=speaker(message))

"""The protected core: goals, hard constraints and key decisions, found by rules, with no model."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..messages import text
from ..salience import Item, Kind
from ..transcript import Logged
from .extract import Extracted, legible, speaker
from .quotes import sentences, verify

_IDLE = r"(?:worry|know|think|see|mind|understand|remember|believe|hesitate)"
"""What one says not to do without forbidding it."""

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
"""What names a goal, a hard constraint or a decision, in English and Chinese."""

_NAMES = {kind: re.compile("|".join(rules), re.IGNORECASE) for kind, rules in _RULES.items()}


def kind_of(sentence: str) -> Kind | None:
    """Return what a sentence says by the words it has, None if it is nothing to protect.

    Of several kinds it is the one that is named first: goal, constraint, decision.

    >>> kind_of("We will use PostgreSQL because the team knows it.")
    <Kind.DECISION: 'decision'>
    >>> kind_of("Must it be fast?") is None
    True
    """
    if sentence.endswith(("?", "？")):
        return None
    return next((kind for kind, rule in _NAMES.items() if rule.search(sentence)), None)


MOST = 200
"""Sentences that are kept at most: constraints before others, of each the newest."""

LONGEST = 600
"""Characters of a sentence that is looked at; what is longer is no sentence that somebody said."""

_SPEAKERS = frozenset({"human", "ai"})
"""Who states something; an output of a tool states nothing."""

_FENCE = re.compile(r"^```.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)
"""A block of code, whose comments are no sentences that somebody said."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What an effort was opened for, what it is for now, and how that changed.

    `changes` are the turn of each change, the goal since then, and why.
    """

    original: str
    current: str
    changes: tuple[tuple[int, str, str], ...] = ()
    constraints: tuple[str, ...] = ()


def core(goals: Goals, turns: Sequence[Logged]) -> tuple[Item, ...]:
    """Return the protected core of a log as quotes, in the order of their turns.

    These are the goals, reasons and constraints that were said in the log as they were stated, and
    the sentences of users and of the model that say a goal, a hard constraint or a decision. Of
    sentences with the same words the newest stays.
    """
    stated = [
        Extracted(quote=goals.original, kind=Kind.GOAL),
        *(Extracted(quote=goal, kind=Kind.GOAL, turn=turn) for turn, goal, _ in goals.changes),
        *(Extracted(quote=why, kind=Kind.DECISION, turn=turn) for turn, _, why in goals.changes),
        Extracted(quote=goals.current, kind=Kind.GOAL),
        *(Extracted(quote=words, kind=Kind.CONSTRAINT) for words in goals.constraints),
    ]
    found = [verdict.item for verdict in verify(stated, turns) if verdict.item]
    newest = {
        " ".join(re.findall(r"\w+", item.quote.casefold())): item
        for item in (*found, *_by_rules(turns))
    }
    lasting = sorted(newest.values(), key=lambda item: (item.kind is Kind.CONSTRAINT, item.turn))
    return tuple(sorted(lasting[-MOST:], key=lambda item: item.turn))


def _by_rules(turns: Sequence[Logged]) -> Iterator[Item]:
    """Yield what people said that the words of a sentence show to be worth keeping."""
    for turn in legible(turns):
        for message in turn.messages:
            words = _FENCE.sub("\n", text(message)) if message["type"] in _SPEAKERS else ""
            for sentence in sentences(words):
                kind = kind_of(sentence) if len(sentence) <= LONGEST else None
                if kind:
                    yield Item(kind, sentence, turn.turn, speaker=speaker(message))

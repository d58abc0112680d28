"""The words by which a goal, a hard constraint or a decision is told, in English and Chinese."""

import re
from collections.abc import Mapping

from .salience import Kind

_IDLE = r"(?:worry|know|think|see|mind|understand|remember|believe|hesitate)"
"""What one says not to do without forbidding it."""

_GOAL = (
    r"\b(?:our|the|my|new|main|overall) (?:goal|aim|objective)\b",
    r"\b(?:goal|objective) is\b",
    "目标|目標",
)
_CONSTRAINT = (
    r"\b(?:must|never|always|shall|mandatory|forbidden|prohibited|not allowed|hard limit)\b",
    r"\b(?:at most|at least|no (?:more|less|fewer|later|earlier) than|not exceed)\b",
    rf"\b(?:do not|don[’']t)(?! {_IDLE}\b)",
    r"\b(?:has|have|need|needs) to (?:be|stay|remain|keep|work|run|support)\b",
    r"\b(?:may not|can(?:not|[’']t) (?:be|use|have|change)|under no circumstances)\b",
    "必须|必須|务必|務必|一定要|不得|不能|不可|不许|不許|禁止|严禁|嚴禁|绝不|絕不|决不",
    "永远|永遠|始终|始終|总是|總是|最多|至多|至少|不超过|不超過|不要|只能|仅限|僅限",
)
_DECISION = (
    r"\b(?:decided|decision|we agreed|agreed to|chose|chosen|settled on|opted for|picked)\b",
    r"\b(?:we|i)(?: will|[’']ll| are going to|[’']re going to) (?:use|go with|take|keep|switch)\b",
    r"\b(?:let[’']s|let us) (?:use|go with|take|keep|stick|switch|stay)\b",
    r"\b(?:because|the reason is|instead of|rather than)\b",
    "决定|決定|选择|選擇|选定|選定|采用|採用|我们用|我們用|就用|改用|决策|決策",
    "我们将使用|我們將使用|因为|因為|由于|由於|原因是",
)
_RULES: Mapping[Kind, re.Pattern[str]] = {
    kind: re.compile("|".join(words), re.IGNORECASE)
    for kind, words in (
        (Kind.GOAL, _GOAL),
        (Kind.CONSTRAINT, _CONSTRAINT),
        (Kind.DECISION, _DECISION),
    )
}


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
    return next((kind for kind, rule in _RULES.items() if rule.search(sentence)), None)

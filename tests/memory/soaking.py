"""A long run of random conversations: every context that they assemble is checked.

`soak(seed, contexts)` counts those that break an invariant: `over` the budget, `miscounted` in the
report, `torn` (a call without its result, or a result alone), `moved` (the same plan, and yet it
does not begin with all of the context before), `shuffled` (turns out of order), `lost` (the last
turn is missing or shortened, though there is room). `full` counts those that
are as large as they may be before they are cut, `edge` the questions that were made as long as
fits, or a token more or less, `cut` those of which turns had to leave, `grown` those that follow
another one with the same plan.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ebbtide.memory.context.budget import LEAST_ROOM, high_water
from ebbtide.memory.context.fit import WorkingContext
from ebbtide.memory.tokens import TokenCounter
from tests.memory.contexts import (
    begins,
    fill,
    has_last_turn,
    in_order,
    take,
    tokens,
    unchanged,
    well_formed,
)
from tests.memory.conversations import Conversation, conversation, count_words

VIOLATIONS = ("over", "miscounted", "torn", "moved", "shuffled", "lost")
SCRIPTS = (
    "the port of the service is 8080 refused again 12:30 x\n",
    "数据库 连接 被拒绝 端口 八千 服务 重启 了",
    "🙂 👩‍👩‍👧 🇦🇹 ✂️ 🔌 🙃",
)
SIZES = {1: 300, 4: 300, 12: 200, 40: 100, 120: 40, 400: 8, 2_000: 2, 20_000: 0.2}
"""Words of a text, and how often it has so many."""

ABOVE_THE_FLOOR = {0: 2, 1: 2, 100: 3, 500: 3, 2_000: 3, 48_000: 1}
CALLS = {1: 8, 2: 8, 5: 4, 20: 1, 64: 0.2}
LEAST_FREE = 256
TURNS = 40
EFFORTS = "abcdef"
SETTINGS: tuple[dict[str, Any], ...] = (
    {"ambient_window": 0},
    {"ambient_window": 3, "rebuild": "every-turn"},
    {"ambient_window": 10, "recall_hints": 3},
    {"anchor": "off", "rebuild": "on-change"},
)


class Soak:
    """A conversation, how its steps are drawn, and what was counted so far."""

    def __init__(self, talk: Conversation, chance: random.Random, found: Counter[str]) -> None:
        """Begin with a budget between the floor and 50,000, mostly a small one."""
        self.talk, self.chance, self.found = talk, chance, found
        self.before: WorkingContext | None = None
        self.redraw()

    def redraw(self) -> None:
        """Draw settings and a budget; what is drawn adds to what was drawn before."""
        self.talk.set(**self.chance.choice(SETTINGS))
        above = self.chance.randint(0, self.drawn(ABOVE_THE_FLOOR))
        self.talk.set(context_budget=self.talk.fixed + LEAST_ROOM + above)

    def turn(self) -> None:
        """Go through one turn, and check a context at each call of the model."""
        chance = self.chance
        if chance.random() < 0.02:
            self.redraw()
        self.talk.ask(*(self.said() for _ in range(chance.choice([1, 1, 1, 2, 3]))))
        if chance.random() < 0.3:
            self.fill()
        self.check()
        for _ in range(chance.choice([0, 0, 1, 1, 2, 4])):
            take(self.talk, *self.step())
            self.check()
        self.talk.answer(self.said())

    def step(self) -> tuple[str, Any]:
        """Draw what the model does in one message."""
        kind = self.chance.choice(
            ["look", "look", "look", "open", "close", "reopen", "switch", "expand", "read"]
        )
        if kind == "look":
            return kind, [self.said() for _ in range(self.drawn(CALLS))]
        last = max(1, self.talk.tip.turn)
        return kind, self.chance.randint(1, last) if kind == "read" else self.chance.choice(EFFORTS)

    def said(self) -> str:
        """Draw a text: one script or several, a few words, many, or by far too many."""
        chance = self.chance
        words = " ".join(chance.sample(SCRIPTS, chance.randint(1, 3))).split(" ")
        size = self.drawn(SIZES)
        drawn = chance.choices(words, k=min(size, 200))
        return chance.choice([" ", " ", "\n"]).join(drawn * max(1, size // 200))

    def drawn(self, often: Mapping[int, float]) -> int:
        """Draw a number, by how often it comes."""
        (found,) = self.chance.choices([*often], [*often.values()])
        return found

    def fill(self) -> None:
        """Say more, up to exactly where the next cut is due, or a token less or more."""
        before = self.talk.messages
        fill(self.talk, self.chance.choice([-1, 0, 0, 1]))
        self.found["edge"] += self.talk.messages != before

    def check(self) -> None:
        """Assemble as the node does, and count what is wrong."""
        talk, before = self.talk, self.before
        context = talk.context
        budget, counted = talk.settings.context_budget, tokens(context, talk)
        grown = before is not None and unchanged(before) == unchanged(context)
        talk.free = max(LEAST_FREE, budget - counted)
        self.found.update(
            contexts=1,
            full=counted - talk.fixed == high_water(talk.room, context.plan.size),
            cut=context.plan.why == "high-water",
            grown=grown,
            over=counted > budget,
            miscounted=counted != context.report["total"],
            torn=not well_formed(context.messages),
            moved=grown and before is not None and not begins(context, before),
            shuffled=not in_order(context),
            lost=not grown and not has_last_turn(context, talk),
        )
        self.before = context


def soak(seed: int, contexts: int, count: TokenCounter = count_words) -> dict[str, int]:
    """Hold random conversations until so many contexts are checked, and return the counts."""
    chance, found = random.Random(seed), Counter(dict.fromkeys(VIOLATIONS, 0))
    while found["contexts"] < contexts:
        with conversation(recall_hints=0) as talk:
            talk.count = count
            here = Soak(talk, chance, found)
            for _ in range(TURNS):
                here.turn()
    return dict(found)

"""The plan within the budget: when it is cut, in which order, how deep; and the prompt of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

from langchain_core.messages import BaseMessage
from rapidfuzz.distance import Prefix
from sqlalchemy.util import memoized_property

from ..messages import text, with_content
from ..names import ranges, ranges_between, span
from ..running_turn import Turn
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_messages
from ..turn import StoredTurn
from ..valid_history import with_own_ids
from .attached import attached
from .budget import (
    DIGITS,
    MOST,
    TURN_LOW_WATER,
    TURN_SHARE,
    Part,
    first_below,
    fixed_parts,
    high_water,
    ladder,
    low_water,
    size,
)
from .changes import WHOLE_RESULTS, is_edited, new_plan
from .forms import has_long_results
from .plan import BLOCK, CONSTRAINTS, HINTS, INDEX, Plan, Rounds
from .render import Parts, parts_of, quotes_of
from .rounds import (
    before_newest,
    begins,
    concluded,
    last_cuts,
    least_cut,
    older_cuts,
    without_last_resorts,
)


@dataclass(frozen=True)  # without slots: `memoized_property` needs a `__dict__`
class WorkingContext:
    """The prompt of a model call in parts, the plan behind it, and what it leaves out."""

    parts: tuple[Part, ...]
    plan: Plan
    budget: int
    left_out: Mapping[str, Any] = field(default_factory=dict)
    application: int = 0
    """The tokens of what the application says in the conversation, in the system message."""

    @memoized_property
    def messages(self) -> tuple[BaseMessage, ...]:
        """The messages of all parts, in order, in which each tool call has an id of its own."""
        return with_own_ids([*chain.from_iterable(map(attrgetter("messages"), self.parts))])

    @memoized_property
    def sent(self) -> str:
        """The digests of all messages, `DIGITS` for each."""
        return "".join(map(attrgetter("digests"), self.parts))

    def prefix(self, earlier: str, count: TokenCounter) -> int:
        """Return the tokens of the prefix shared with an earlier prompt, given what that `sent`.

        The tool schemas count as shared, unless not even the first message is.
        """
        shared = Prefix.similarity(earlier, self.sent) // DIGITS
        tokens = -REPLY_OVERHEAD
        for part in self.parts if shared else ():
            is_shared = len(part.messages) <= shared
            tokens += part.tokens if is_shared else count_messages(part.messages[:shared], count)
            shared = max(0, shared - len(part.messages))
        return max(0, tokens)

    def steady(self, earlier: str) -> int:
        """Return the place of the last message that a rebuild leaves as it is, -1 if there is none.

        In a rebuilt prompt that is the last one that it shares with an earlier one, given what that
        `sent`; else the last one before the turns.
        """
        shared = Prefix.similarity(earlier, self.sent) // DIGITS
        if 0 < shared < len(earlier) // DIGITS:
            return shared - 1
        before = 0
        for part in self.parts:
            if part.name in {"turns", "turn"}:
                break
            before += len(part.messages)
        return before - 1

    @property
    def report(self) -> dict[str, Any]:
        """What the state shows: tokens by part and in all, what is left out, why it changed."""
        tokens = Counter[str]()
        for part in self.parts:
            tokens[part.name] += part.tokens
        plan = self.plan
        changed = {"after_turn": plan.after_turn, "why": plan.why}
        return {
            "total": tokens.total(),
            "budget": self.budget,
            "tokens": dict(tokens),
            "left_out": dict(self.left_out),
            "changed": changed | ({"within": plan.within} if plan.within else {}),
            **({"application": self.application} if self.application else {}),
        }


def assemble(work: Turn, fixed: Sequence[Part]) -> WorkingContext:
    """Build the context of the running turn within the budget; the `fixed` parts stand first.

    The same inputs give the same bytes; between two changes of the plan the context only grows at
    its end. Above high water it is cut to low water.
    """
    plan = work.plan or new_plan(work, "new")
    if work.efforts.events and concluded(work) != (plan.rounds.gone if plan.rounds else ()):
        plan = new_plan(work, "concluded", inside=True)
    elif plan.application != work.application.key:
        plan = new_plan(work, "application", inside=True)
    elif is_edited(work, plan):
        plan = new_plan(work, "edited", inside=True)
    parts = parts_of(work, plan)
    if size(parts) > high_water(work.room, plan.size):
        plan, parts = _cut(work, new_plan(work, "high-water", inside=True))
    budget, (system, *rest) = work.run.settings.context_budget, fixed
    words, said, added = text(system.messages[0]), work.application, 0
    keyed = work.fences.keyed(words)
    if said.texts or said.left_out:
        texts = words, said.after(words, work.fences)
        alone, with_said = (fixed_parts(one, 0, work.run.count)[0].tokens for one in texts)
        keyed, added = said.after(keyed, work.fences), with_said - alone
    system_message = with_content(system.messages[0], keyed)
    first = replace(system, messages=(system_message,), tokens=system.tokens + added)
    return WorkingContext((first, *rest, *parts), plan, budget, _omissions(work, plan), added)


def _omissions(work: Turn, plan: Plan) -> dict[str, Any]:
    """Return what is left out: efforts without a line, turns, and turns shown only in part."""
    omissions: dict[str, Any] = {}
    if work.application.left_out:
        omissions["application"] = len(work.application.left_out)
    if plan.older or plan.unnamed:
        omissions["efforts"] = len(plan.older) + plan.unnamed
    if hidden := ranges_between(plan.turns, plan.after_turn) if plan.after_turn else "":
        omissions["turns"] = hidden
    if plan.previews:
        older = work.view.past.turns([turn for turn in plan.turns if turn <= plan.previews])
        long = ranges([stored.number for stored in older if has_long_results(work, stored)])
        omissions |= {"previews": long} if long else {}
    if plan.brief or plan.rounds:
        short = [*plan.brief, *([plan.after_turn + 1] if plan.rounds else [])]
        omissions["shortened"] = ranges(short)
    if plan.quotes:
        compressed = omissions["compressed"] = dict[str, str]()
        for name, turn in plan.quotes.items():
            compression, log = work.view.compression(name, turn), work.view.log_turns(name)
            compressed[name] = span(log[0], compression.through) if compression and log else ""
        left = {name: one.left_out for name, one in quotes_of(work, plan).items() if one.left_out}
        omissions |= {"quotes": left} if left else {}
    return omissions


def _cut(work: Turn, plan: Plan) -> tuple[Plan, Parts]:
    """Cut a plan so that its context, with the running turn, falls to low water.

    Of turns too large alone results become previews, or only request and answer stay; then turns
    leave, oldest first; then results of the last three but the newest become previews. Only where
    that does not fit at all, logs leave, and of the last three only request and answer stay, or
    nothing. The running turn is cut last, and never to less than its share and its attachments. As
    far as those leave it, at least a quarter of the room is kept for what was before. Returns the
    new plan and its parts.
    """
    if plan.rounds is not None:
        plan = replace(plan, rounds=without_last_resorts(plan.rounds, work.view.running.messages))
    silent = StoredTurn(work.view.running.number, (), "")
    past = replace(work, view=replace(work.view, running=silent))
    running = size(parts_of(work, plan)) - size(parts_of(past, plan))
    full = int(MOST * work.room)
    most = min(full, int(TURN_SHARE * work.room) + attached(work, plan).tokens)
    reserved = min(running, most)

    def tokens(step: Plan) -> int:
        return reserved + size(parts_of(past, step))

    low = min(
        full, max(low_water(work.room, work.run.settings.context_budget), reserved + full // 4)
    )
    plan = first_below(low, _gentle_cuts(past, plan, low - reserved, full - reserved), tokens)
    if tokens(plan) > full:
        plan = first_below(full, _last_cuts(plan), tokens)
    before = tokens(plan) - reserved
    if before + running > low:
        # What stands even if all rounds leave: request, index, aims and block.
        turn, rounds = work.view.running, plan.rounds or Rounds()
        end = min([len(turn.messages), *begins(turn.messages, rounds.left)[-1:]])
        rounds = replace(rounds, until=end, left=end)
        early = replace(work.view, running=replace(turn, messages=turn.messages[:end]))
        standing = size(parts_of(replace(work, view=early), replace(plan, rounds=rounds)))
        limit = standing + int(TURN_LOW_WATER * (work.room - standing))
        plan = _with_cut(work, plan, min(full, limit))
    parts = parts_of(work, plan)
    return replace(plan, size=size(parts)), parts


def _with_cut(work: Turn, plan: Plan, limit: int) -> Plan:
    """Return the plan with the running turn cut so that all parts have at most `limit` tokens.

    The last rounds are spared as long as there is room at all, the newest longer than the others,
    and the request longest, with its attachments: what stands before the turn leaves first.
    """

    def tokens_of(step: Plan) -> int:
        return size(parts_of(work, step))

    def shows(cut: Rounds) -> int:
        return tokens_of(replace(plan, rounds=cut))

    turn, full = work.view.running, int(MOST * work.room)
    most = max(limit, high_water(work.room, 0))
    cut = first_below(limit, older_cuts(turn, plan.rounds), shows)
    if shows(cut) <= most:
        whole = before_newest(cut, turn.messages)
        return replace(plan, rounds=whole if shows(whole) <= most else cut)
    if attached(work, plan).tokens:
        least = least_cut(turn, cut, work.room)
        *_, bare = _without_rest(replace(plan, rounds=least))
        cut = replace(cut, files=_fitting_files(work, bare, full))
    before, newest = last_cuts(turn, cut, work.room)
    low = next((low for low in (limit, most) if shows(before[-1]) <= low), full)
    cut = first_below(low, [*before, *newest], shows)
    steps = [*_without_rest(replace(plan, rounds=cut))]
    shorter = [_with(steps[-1], request=tokens) for tokens in ladder(cut.request or 0)]
    found = first_below(full, [*steps, *shorter], tokens_of)
    if tokens_of(found) <= full:
        return found
    # The calls of the newest round alone take too much: half the room has a usual request whole.
    return first_below(full, [_with(step, excerpt=work.room // 2) for step in steps], tokens_of)


def _with(plan: Plan, **changes: Any) -> Plan:
    """Return the plan with these changes of what it shows of the running turn."""
    return replace(plan, rounds=replace(plan.rounds or Rounds(), **changes))


def _fitting_files(work: Turn, plan: Plan, limit: int) -> int | None:
    """Return the tokens of attachments with which a plan has at most `limit`; None for all."""
    cut = plan.rounds or Rounds()
    while (over := size(parts_of(work, plan)) - limit) > 0:
        sent = attached(work, plan).tokens
        if not sent:
            break
        cut = replace(cut, files=max(0, sent - over))
        plan = replace(plan, rounds=cut)
    return cut.files


def _without_rest(plan: Plan) -> Iterator[Plan]:
    """Yield a plan with less and less beside the request and the newest round.

    How many efforts there are is always said.
    """
    yield plan
    yield (plan := _with(plan, bare=HINTS))
    yield (plan := replace(plan, older=(), unnamed=plan.unnamed + len(plan.older)))
    yield (plan := _with(plan, bare=INDEX))
    yield (plan := replace(plan, quotes={}))
    yield (plan := replace(plan, summaries=(), unnamed=plan.unnamed + len(plan.summaries)))
    yield (plan := replace(plan, turns=(), brief=()))
    yield (plan := _with(plan, bare=BLOCK))
    yield _with(plan, bare=CONSTRAINTS)


def _gentle_cuts(work: Turn, plan: Plan, free: int, full: int) -> Iterator[Plan]:
    """Yield deeper and deeper cuts that keep the last three turns.

    Turns that alone exceed `free` tokens become previews, or only their request and answer stay;
    the last three only if together they exceed `full`.
    """
    yield plan
    sizes = _sizes(work, plan)
    last = plan.turns[-WHOLE_RESULTS:]
    fit = sizes["memory"] + sizes["quotes"] + sum(sizes[turn] for turn in last) <= full
    large = [turn for turn in plan.turns if sizes[turn] > free and not (fit and turn in last)]
    if large:
        yield (plan := replace(plan, previews=max(plan.previews, *large)))
        sizes = _sizes(work, plan)
        brief = sorted({*plan.brief, *(turn for turn in large if sizes[turn] > free)})
        yield (plan := replace(plan, brief=tuple(brief)))
    # A log leaves with the turns that are as old as the last mention of it.
    state = work.efforts
    ages = {name: one["opened_turn"] for name, one in state.open.items()}
    ages |= {name: one["last_referenced_turn"] for name, one in state.expanded.items()}
    ages = {name: ages[name] for name in plan.logs if ages.get(name, 0) < min(last, default=0)}
    for turn in sorted({*plan.turns, *ages.values()}.difference(last)):
        left = dict.fromkeys([name for name, age in ages.items() if age <= turn], "")
        plan = replace(_drop_through(plan, turn), logs={**plan.logs, **left})
        yield plan
    for turn in plan.turns[:-1]:
        yield (plan := replace(plan, previews=max(plan.previews, turn)))


def _sizes(work: Turn, plan: Plan) -> Counter[int | str]:
    """Return the tokens of each past turn, and of each other part."""
    sizes = Counter[int | str]()
    for part in parts_of(work, plan):
        sizes[part.turn if part.turn and part.name == "turns" else part.name] += part.tokens
    return sizes


def _last_cuts(plan: Plan) -> Iterator[Plan]:
    """Yield deeper and deeper cuts of logs and the last three turns, until none is left.

    The newest turn, which the user goes on with, is cut after the others and leaves last.
    """
    yield plan
    for name in plan.logs:
        yield (plan := replace(plan, logs={**plan.logs, name: ""}))
    for turn in plan.turns:
        brief = tuple(sorted({*plan.brief, turn}))
        yield (plan := replace(plan, previews=max(plan.previews, turn), brief=brief))
    for turn in plan.turns:
        yield (plan := _drop_through(plan, turn))


def _drop_through(plan: Plan, turn: int) -> Plan:
    return replace(
        plan,
        turns=tuple(later for later in plan.turns if later > turn),
        brief=tuple(later for later in plan.brief if later > turn),
    )

"""What tools bring back into the context, and attachments: sent, or named.

Those of the running turn are part of its request. They are sent one after the other, as far as the
whole budget goes: all else leaves before them (see `fit`). One that is not sent is named, and read
as text where it has any. In every other turn a placeholder stands for each. What a provider's own
tools gave belongs to the answer that has it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..attachments import without_facts
from ..banners import banner_of
from ..blocks import Attachment, attachment, kind_of
from ..efforts import Efforts
from ..errors import ToolError
from ..messages import Growing, block_text, call_id, compact, text, with_content
from ..names import numbers, ranges, turns_named
from ..recalled import recalled, result_of
from ..running_turn import Turn
from ..tokens import price_of
from ..transcript import cleaned, offsets
from ..turn import StoredTurn
from .plan import Plan, Rounds
from .previews import preview

_WORDS_SHARE = 0.25
"""Share of the room for the words of a document that is not sent: that of one new result."""

_ATTACHED_SHARE = 0.85
"""Share of the room for attachments in a budget that is named: the rest has what always stands."""

_SHOWING = ("human", "tool")
"""The types of messages whose attachments are replaced."""

LOG_TOOLS = {"expand_effort": "expanded", "reopen_effort": "reopened"}
"""The tools that put a log into the context, with the status of their results."""

CallKey: TypeAlias = tuple[str, int]
"""A call: its id, and how many later calls of its turn have the same id, as models repeat ids."""

_Block: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unsent:
    """An attachment that is not sent, and why: the budget that it needs, 0 if never."""

    what: Attachment
    budget: int = 0


@dataclass(slots=True)
class _Ledger:
    """What was decided of the attachments of a turn, one after the other.

    Those that are sent have at most `free` tokens together. In tokens, `used` are those of them,
    `asked` those of all that the model takes.
    """

    work: Turn
    free: float = inf
    used: int = 0
    asked: int = 0
    sent: set[str] = field(default_factory=set)
    unsent: list[Unsent] = field(default_factory=list)

    def takes(self, block: _Block, one: Attachment, kind: str) -> bool:
        """Tell whether a block is sent, and note it."""
        own = {one.input_kind, *([f"{one.input_kind} of a tool"] if kind == "tool" else [])}
        if not own.isdisjoint(self.work.run.refused):
            self.unsent.append(Unsent(one))
            return False
        if (key := compact(without_facts([block])[0])) in self.sent:
            return False
        tokens = price_of(block, self.work.run.count) or 0
        self.asked += tokens
        if self.used + tokens > self.free:
            budget = self.work.run.settings.context_budget
            humans = (m for m in self.work.view.running.messages if m.type == "human")
            said = sum(self.work.run.count(text(with_content(one, _words(one)))) for one in humans)
            needed = budget - self.work.room + (self.asked + said) / _ATTACHED_SHARE
            self.unsent.append(Unsent(one, 1_000 * ceil(max(needed, budget + 1) / 1_000)))
            return False
        self.used += tokens
        self.sent.add(key)
        return True


def _words(message: BaseMessage) -> Any:
    content = message.content
    if not isinstance(content, list):
        return content
    return [block for block in content if attachment(block) is None]


def placeholders(work: Turn, messages: Sequence[BaseMessage], turn: int) -> tuple[BaseMessage, ...]:
    """Return the messages of a turn with placeholders for their attachments.

    Reading the turn brings back what the model takes, and any words.
    """

    def left(_: int, one: Attachment) -> Any:
        is_refused = one.input_kind in work.run.refused and not one.text
        name = "refused_attachment_of_turn" if is_refused else "attachment_of_turn"
        return _text(render(name, attachment=one, turn=turn))

    return tuple(_mapped(message, left) for message in messages)


def _text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def _mapped(message: BaseMessage, change: Any) -> BaseMessage:
    """Return a message with its attachments changed, by place and attachment.

    What stands for one has lines of its own: texts beside each other are one text.
    """
    content = _blocks(message)
    blocks = [
        block if (one := attachment(block)) is None else change(at, one)
        for at, block in enumerate(content)
    ]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    joined: list[Any] = []
    for block in blocks:
        if joined and kind_of(block) == kind_of(joined[-1]) == "text":
            joined[-1] = _text(f"{block_text(joined[-1])}\n{block_text(block)}")
        else:
            joined.append(block)
    only_text = len(joined) == 1 and kind_of(joined[0]) == "text"
    return with_content(message, block_text(joined[0]) if only_text else joined)


@dataclass(frozen=True, slots=True)
class Attached:
    """The messages of the running turn as they are sent, what calls brought back, what is unsent.

    `back` has a note of the memory for each call whose log has attachments. `tokens` are those of
    the attachments that are sent.
    """

    messages: tuple[BaseMessage, ...]
    back: Mapping[CallKey, BaseMessage] = field(default_factory=dict)
    unsent: tuple[Unsent, ...] = ()
    tokens: int = 0


def attached(work: Turn, plan: Plan) -> Attached:
    """Return the running turn with its attachments as they are sent; rounds that left have none."""
    turn = work.view.running
    if not any(_which_may(turn.messages)):
        return Attached(turn.messages)
    cut = (plan.rounds if plan.after_turn + 1 == turn.number else None) or Rounds()
    ledger = _Ledger(work, inf if cut.files is None else cut.files)
    back: dict[CallKey, BaseMessage] = {}
    brought = dict(_brought(work, turn))
    messages = []
    places = offsets(turn.messages)
    for at, (message, call) in enumerate(with_calls(turn.messages)):
        if call is not None and (at < cut.left or cut.has_gone(at)):
            messages.append(message)
            continue
        messages.append(_as_sent(ledger, message, places[at].text))
        if call is not None and call in brought and (note := _note(ledger, brought[call])):
            back[call] = note
    return Attached(tuple(messages), back, tuple(ledger.unsent), ledger.used)


def with_unsent(work: Turn, plan: Plan) -> Efforts:
    """Return the state of the efforts with a banner for attachments not sent, unless it has one."""
    state, told = work.efforts, "\n".join(work.efforts.banners)
    unsent = [one for one in attached(work, plan).unsent if str(one.what) not in told]
    large = _counted(str(one.what) for one in unsent if one.budget)
    refused = _counted(str(one.what) for one in unsent if not one.budget)
    named = [banner_of("refused", attachments=refused)] if refused else []
    if large:
        budget = max(one.budget for one in unsent)
        named.insert(0, banner_of("too_large", attachments=large, budget=f"{budget:,}"))
    line = banner_of("unsent", attachments="; ".join(named))
    return replace(state, banners=(*state.banners, line)) if named else state


def _counted(names: Iterable[str]) -> str:
    times = Counter(names).items()
    return "; ".join(name if number == 1 else f"{number} times {name}" for name, number in times)


def _blocks(message: BaseMessage) -> Sequence[Any]:
    content = message.content
    return content if message.type in _SHOWING and isinstance(content, list) else ()


def _may_have(message: BaseMessage) -> bool:
    """Tell whether a message has an attachment, or may bring one back."""
    if any(map(attachment, _blocks(message))):
        return True
    brings = message.name in LOG_TOOLS or recalled(message)
    return bool(brings) and message.type == "tool"


_which_may = Growing[bool](lambda messages, _: [*map(_may_have, messages)])


def _as_sent(ledger: _Ledger, message: BaseMessage, offset: int) -> BaseMessage:
    """Return a message with the attachments that are sent; words or a note stand for others."""
    content: Any = message.content
    turn, count = ledger.work.view.running.number, ledger.work.run.count

    def shown(at: int, one: Attachment) -> Any:
        if ledger.takes(content[at], one, message.type):
            return content[at]
        if not ledger.unsent or ledger.unsent[-1].what != one:  # it stands above already
            return _text(f"[{one}]")
        if not one.text:
            return _text(_not_sent(ledger.unsent[-1], turn))
        said = f"[{one}]\n{one.text}"
        before = text(with_content(message, content[: at + 1])).removesuffix(said)
        place = offset + len(cleaned(before))
        limit = int(_WORDS_SHARE * ledger.work.room)
        return _text(preview(said, limit, turn=turn, offset=place, count=count))

    return _mapped(message, shown)


def _not_sent(unsent: Unsent, turn: int) -> str:
    if not unsent.budget:
        return render("attachment_refused", attachment=unsent.what)
    return render("attachment_too_large", attachment=unsent.what, turn=turn, budget=unsent.budget)


_Found: TypeAlias = tuple[int, _Block, Attachment]
"""A turn, and a block of it that is an attachment."""


def _brought(work: Turn, turn: StoredTurn) -> Iterator[tuple[CallKey, list[_Found]]]:
    shown = work.efforts.expanded.keys() | work.efforts.open.keys()
    results = log_results(turn.messages)
    logs = {call: result for _, call, result in results if result["effort_id"] in shown}
    for message, call in with_calls(turn.messages):
        if call is None:
            continue
        found: list[_Found] = []
        for quote in recalled(message):
            view = work.view.of_session(quote.session) if quote.session else work.view
            turns = view.past.turns([quote.turn]) if view and quote.turn != turn.number else ()
            if message.name == "read_log":
                found += [one for stored in turns for one in _attachments(stored)]
        if call in logs:
            turns = work.view.turns_of(logs[call]["effort_id"], turns_of_log(logs[call]))
            found += [
                one
                for stored in turns
                if stored.number != turn.number or stored.status == "erased"
                for one in _attachments(stored)
            ]
        if found:
            yield call, found


def _attachments(turn: StoredTurn) -> Iterator[_Found]:
    for message in turn.messages if turn.status != "erased" else ():
        for block in _blocks(message):
            if (one := attachment(block)) is not None:
                yield turn.number, block, one


def _note(ledger: _Ledger, found: Sequence[_Found]) -> BaseMessage | None:
    """Return the memory's message with the attachments that a call brought back.

    Those that are not sent are named, unless what the call read has their words.
    """
    before = len(ledger.unsent)
    lines: list[tuple[int, str]] = []
    blocks: list[_Block] = []
    for turn, block, one in found:
        if ledger.takes(block, one, "human"):
            lines.append((turn, f"- turn {turn}: {one}"))
            blocks.append(block)
        elif ledger.unsent[before:] and not one.text:
            lines.append((turn, f"- {_not_sent(ledger.unsent[-1], turn)}"))
        del ledger.unsent[before:]  # the user was told when it was sent
    if not lines:
        return None
    turns = turns_named(ranges(sorted({turn for turn, _ in lines})))
    note = ledger.work.fences.note_within(
        "\n".join(line for _, line in lines),
        int(_WORDS_SHARE * ledger.work.room),
        lambda quote: render("attachments_back", turns=turns, quote=quote),
    )
    return with_content(note, [_text(str(note.content)), *blocks])


def with_calls(messages: Sequence[BaseMessage]) -> list[tuple[BaseMessage, CallKey | None]]:
    """Return each message with the call that it answers, None if it is no result."""
    pairs: list[tuple[BaseMessage, CallKey | None]] = []
    later: Counter[str] = Counter()
    for message in reversed(messages):
        answered = str(call_id(message))
        pairs.append((message, (answered, later[answered]) if message.type == "tool" else None))
        later[answered] += 1
    return pairs[::-1]


_names = Growing[Any](lambda messages, _: [one.name for one in messages])


def log_results(
    messages: Sequence[BaseMessage],
) -> Iterator[tuple[int, CallKey, Mapping[str, Any]]]:
    """Yield the results that brought turns of a log back, with their places and calls."""
    for at, call, result in results_of(messages, LOG_TOOLS):
        is_done = result.get("status") == LOG_TOOLS.get(str(messages[at].name))
        if is_done and result.get("tokens", 1) and turns_of_log(result):
            yield at, call, result


def results_of(
    messages: Sequence[BaseMessage], tools: Collection[str]
) -> Iterator[tuple[int, CallKey, Mapping[str, Any]]]:
    """Yield the results of these tools, with their places and calls."""
    if {*_names(messages)}.isdisjoint(tools):
        return
    for at, (message, call) in enumerate(with_calls(messages)):
        if call is not None and message.name in tools:
            yield at, call, result_of(message)


def turns_of_log(result: Mapping[str, Any]) -> list[int]:
    """Return the turns that a result lists, none if malformed: a client may have written it."""
    if not all(isinstance(result.get(name), str) for name in ("effort_id", "turns")):
        return []
    try:
        return sorted(numbers(result["turns"]))
    except ToolError:
        return []

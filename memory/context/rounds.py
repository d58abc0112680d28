"""Inside a long turn: which rounds are whole, which are previews, and the index of those that left.

A round is an answer of the model with its calls, and their results. A cut goes from the oldest
round to the newest, and the user's request is shortened last.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, compress, islice, pairwise
from operator import attrgetter
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from rapidfuzz.distance import Prefix

from ...prompts.loader import render
from ..efforts import one_line
from ..fences import Fences
from ..messages import Growing, arguments, call_id, calls
from ..messages import text as text_of
from ..running_turn import Turn
from ..search.passages import word_end
from ..spans import active_before, spans
from ..tokens import TokenCounter, count_message, fit
from ..tool_names import MEMORY_TOOLS
from ..transcript import Offsets, cleaned, offsets, visible_text
from ..turn import StoredTurn, first_round
from ..valid_history import valid_history
from .budget import LEAST_PREVIEW, ladder
from .forms import PREVIEW
from .plan import INDEX, Rounds
from .previews import (
    Limits,
    active_after,
    decisions,
    log_excerpt,
    previewed_each,
)

WHOLE_ROUNDS = 3
"""The newest rounds, which are cut after all others: what the model is working with."""

RESULT_SHARE = 4
"""One in how many tokens of the room a new result always has, and an older one has at most."""

_INDEX_SHARE = 6  # one in how many tokens of the room the index may have
_REQUEST_SHARE = 4  # a request up to this share is never shortened for the results
_ACTIVE_SHARE = 12  # the note on the active effort: a goal and a few constraints
_SHORT, _SAID = 12, 60  # tokens of a result or a value, and of words or all arguments, in a line
_RANKS = 3  # of lines, see `_Done`
_LAST_LINES = 3  # of a long result, of which one may tell how it ended
_CONCLUDED_SHARE = 3  # one in how many tokens of the index the lines of concluded efforts may have
_ALIKE = 16  # characters with which two arguments may begin alike; half of them stand
_NAMED, _LOOKED_AT = 6, 18  # calls that a line for several rounds names, and among how many lines
_NAME, _SUBJECT = 32, 80  # characters of such a name, and of an argument that is one

_ENDED = re.compile(
    r"^\W{0,99}(?:\d+ [a-z]|ok\b|done\b|success|exit)|\b(?:error|exception|fail|passed)",
    re.IGNORECASE,
)
"""What is in a line that tells how a command ended, such as "== 694 passed in 8.76s =="."""


def begins(messages: Sequence[BaseMessage], start: int = 0) -> list[int]:
    """Return the places of the messages that begin a round, from a place on.

    >>> begins([HumanMessage("x"), AIMessage("x"), HumanMessage("x"), AIMessage("y")])
    [1, 3]
    """
    return [at for at, one in enumerate(messages[start:], start) if one.type == "ai"]


def older_cuts(turn: StoredTurn, before: Rounds | None) -> Iterator[Rounds]:
    """Yield deeper and deeper cuts of the rounds older than the last `WHOLE_ROUNDS`.

    Each is as deep as the one `before`, so that nothing that left or shrank comes back.
    """
    yield (cut := replace(before or Rounds(), until=len(turn.messages)))
    places = begins(turn.messages, cut.left)
    older = [end for end in places[1 : 1 - WHOLE_ROUNDS] if end > cut.left]
    for end in older:
        yield (cut := cut.limited(end, PREVIEW, PREVIEW))
    for end in older:
        yield (cut := replace(cut, left=end))


def before_newest(cut: Rounds, messages: Sequence[BaseMessage]) -> Rounds:
    """Return a cut that leaves the newest round as it came: its results have what is free."""
    return replace(cut, until=max([cut.left, *begins(messages, cut.left)[-1:]]))


def without_last_resorts(cut: Rounds, messages: Sequence[BaseMessage]) -> Rounds:
    """Return a cut without what the newest rounds of its time made necessary, as they may leave.

    That is a shorter request, an excerpt for the rounds, and what left beside them.
    """
    left, places = cut.left, begins(messages, cut.left)
    if cut.excerpt and places:
        left = max(left, min(cut.until, places[-1]))
    return replace(cut, left=left, request=None, bare=0, excerpt=0)


def last_cuts(turn: StoredTurn, cut: Rounds, room: int) -> tuple[list[Rounds], list[Rounds]]:
    """Return deeper and deeper cuts of the last rounds but the newest, and then of the newest.

    None shortens a usual request.
    """
    places, until = begins(turn.messages, cut.left), len(turn.messages)
    request = min(cut.request or room, room // _REQUEST_SHARE)
    cut = replace(cut, request=request)
    newest = places[-1] if places else until
    before = [cut, *_shrinking(cut, newest, room)]
    if places:
        before.append(replace(before[-1], left=max(cut.left, newest)))
    return before, [*_shrinking(before[-1], until, room)]


def least_cut(turn: StoredTurn, cut: Rounds, room: int) -> Rounds:
    """Return what of a turn its request's attachments leave room for: the newest round, cut short.

    All its results together have what one may have whole.
    """
    places, until = begins(turn.messages, cut.left), len(turn.messages)
    newest = places[-1] if places else until
    tokens = room // RESULT_SHARE // max(1, until - newest - 1)
    request = min(cut.request or room, room // _REQUEST_SHARE)
    cut = replace(cut, request=request, left=max(cut.left, newest if places else 0))
    return cut.limited(until, tokens, tokens)


def _shrinking(cut: Rounds, end: int, room: int) -> Iterator[Rounds]:
    """Yield cuts of the results before a place, then of the arguments too."""
    for tokens in ladder(room // RESULT_SHARE):
        yield (cut := cut.limited(end, tokens, None))
    for tokens in ladder(room // RESULT_SHARE):
        yield (cut := cut.limited(end, LEAST_PREVIEW, tokens))


def cut_turn(
    turn: StoredTurn,
    messages: Sequence[BaseMessage],
    cut: Rounds,
    room: int,
    fences: Fences,
) -> tuple[tuple[BaseMessage, ...], tuple[BaseMessage, ...]]:
    """Return a turn's first `messages`, as the context shows them, after a cut, in two parts.

    These are the request with the index of the rounds that left, and the other rounds. The `turn`
    may go on with messages that are not cut.
    """
    if cut.excerpt:
        return (), log_excerpt(turn, messages, cut.excerpt, fences)
    valid = partial(valid_history, fences=fences)
    first, away = first_round(messages), hidden(messages, cut)
    visible = sorted({*range(len(messages))} - away)
    limits = {at: _limits(cut, at, messages[at], room) for at in visible}
    short = previewed_each(turn, messages, limits, fences.count)
    rest = [short[at] for at in visible if at >= first]
    limit = 0 if cut.bare >= INDEX else room // _INDEX_SHARE
    notes = [_index(turn, cut, limit, fences)] if away else []
    asked = " ".join(text_of(one) for one in short if one.type == "human")
    shown = [*rest, *turn.messages[len(messages) :]]
    notes += _active_note(turn, shown, one_line(asked), room // _ACTIVE_SHARE, fences)
    return (*valid(short[:first]), *notes), valid(rest)


def hidden(messages: Sequence[BaseMessage], cut: Rounds) -> set[int]:
    """Return the places of the messages of rounds that left; what the user said stays."""
    first = first_round(messages)
    away = {*range(first, min(cut.left, len(messages)))}
    for _, begin, end in cut.gone:
        away |= {*range(max(first, begin), min(end, len(messages)))}
    return away.difference(*(places for _, places in _asked(messages)[-1:]))


def out_of_view(messages: Sequence[BaseMessage], cut: Rounds) -> frozenset[int]:
    """Return the places of messages that are hidden, or may only be shown as previews."""
    shortened = max((end for end, *_ in cut.limits), default=0)
    return frozenset({*range(first_round(messages), shortened)} | hidden(messages, cut))


def _with_asked(
    messages: Sequence[BaseMessage], before: tuple[int, tuple[int, ...]] | None
) -> Sequence[tuple[int, tuple[int, ...]]]:
    """Return for each message the next place, and the places of what the user said before that."""
    at, places = before or (0, ())
    found = []
    for message in messages:
        places = (*places, at) if message.type == "human" else places
        at += 1
        found.append((at, places))
    return found


_asked = Growing(_with_asked)
_deciding = Growing[bool](
    lambda messages, _: [any(True for _ in decisions([message])) for message in messages]
)


def concluded(work: Turn) -> tuple[tuple[str, int, int], ...]:
    """Return the efforts that the running turn concluded, and from where to where their rounds are.

    The newest round is not among them: the model has not answered it.
    """
    names = {event["effort"] for event in work.efforts.events if event["type"] == "concluded"}
    names -= work.efforts.open.keys()
    if not names:
        return ()
    messages = (*work.view.running.messages, *work.results)
    places = begins(messages)
    bounds = (
        (name, max(begin, places[0]), min(end, places[-1]))
        for name, begin, end in spans(messages, active_before(work.efforts))
        if name in names
    )
    return tuple((name, begin, end) for name, begin, end in bounds if begin < end)


def left_until(cut: Rounds, messages: Sequence[BaseMessage]) -> int:
    """Return the place in the running turn up to which its rounds left the prompt.

    A round between two that left, which is shown, is taken with them. The newest never is.
    """
    places = begins(messages, cut.left)
    return min(places[-1], max([cut.left, *(end for *_, end in cut.gone)])) if places else 0


def _limits(cut: Rounds, at: int, message: BaseMessage, room: int) -> Limits:
    """Return the limits of a message at this place: the lowest of all cuts that cover it."""
    if message.type == "human":
        return Limits(texts=cut.request)
    covering = [(results, texts) for end, results, texts in cut.limits if at < end]
    results = min([room // RESULT_SHARE, *(tokens for tokens, _ in covering)])
    texts = min((tokens for _, tokens in covering if tokens is not None), default=None)
    return Limits(results, texts, texts)


def _active_note(
    turn: StoredTurn, shown: Sequence[BaseMessage], asked: str, limit: int, fences: Fences
) -> Iterator[BaseMessage]:
    """Yield the note on which effort the turn left active, unless what is shown says it.

    Its goal and constraints stand there but for what the request says, which is `asked`, a line.
    """
    active = active_after([*compress(turn.messages, _deciding(turn.messages))])
    if active is None or active == active_after(shown):
        return
    if not active:
        yield fences.note(render("none_active_then"))
        return
    name, *purpose = active
    lines = [one for one in purpose if one.partition(": ")[2] not in asked]
    where = render("as_asked") if len(lines) < len(purpose) else ""

    def form(lines: str) -> str:
        return render("active_then", effort=name, where=where, quote=lines).rstrip()

    yield fences.note_within("\n".join(lines), limit, form)


def _index(turn: StoredTurn, cut: Rounds, limit: int, fences: Fences) -> BaseMessage:
    """Return the index of the rounds that left: a list of what was done, a line for each call.

    When it is full, the oldest lines of the lowest rank are merged first. Of a concluded effort,
    for whose rounds its summary stands, it says where they are read, unless the room is too small.
    """
    places, count = offsets(turn.messages), fences.count
    spans, gone = _spans(turn.messages, cut)
    done = _done(count)(turn.messages[: max(end for _, end in (*spans, *gone))])
    head = _concluded_lines(cut, done, places, limit // _CONCLUDED_SHARE, count)
    named = _LOOKED_AT

    def note(kept: Mapping[_Line, str]) -> BaseMessage:
        others = [*islice(_by_rank(done, spans), len(kept), len(kept) + _LOOKED_AT)]
        names = _names(others[:named], _calls(done, spans) - sum(bool(line.name) for line in kept))
        merged = [_more("index_merged", places, spans[0][0], calls=names)] if others else []
        lines = [kept[line] for line in sorted(kept, key=attrgetter("at", "number"))]
        quote = "\n".join([*head, *merged, *lines])
        return fences.note(render("rounds_left_out", turn=turn.number, quote=quote))

    if count_message(note({}), count) > limit:
        named = 0
    if count_message(note({}), count) > limit:
        head = []
    kept, free = dict[_Line, str](), limit - count_message(note({}), count)
    for line in _by_rank(done, spans):
        more, said = line.more, line.text
        said = said if more is None else _more("index_more", places, more, line=said)
        free -= count(f"{said}\n")
        if free < 0:
            break
        kept[line] = said
    while kept and count_message(note(kept), count) > limit:
        kept.popitem()
    return note(kept)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A line of the index."""

    text: str
    name: str
    """The tool, and what it was called for; empty for words and the memory's tools."""
    at: int
    """The place of the message to which it belongs."""
    number: int
    """How many lines of that message come before it."""
    more: int | None
    """The place of the message that says more, None if the line says all."""
    before: "_Line | None"
    """The line before it of the same rank."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What was done up to a message: how many messages and calls, and the last line of each rank.

    Of the lowest rank are readings, which have long results and short arguments, then come searches
    and words; of the highest are edits, writes and commands, which have long arguments.
    """

    messages: int = 0
    calls: int = 0
    last: tuple[_Line | None, ...] = (None,) * _RANKS

    def after(self, found: Iterable[tuple[int, str, str, int | None]]) -> "_Done":
        """Return what was done up to the next message, whose lines are `found`."""
        last, at, called = [*self.last], self.messages, self.calls
        for number, (rank, text, name, steps) in enumerate(found):
            more = None if steps is None else at + steps
            last[rank] = _Line(text, name, at, number, more, last[rank])
            called += bool(name)
        return _Done(at + 1, called, tuple(last))


@lru_cache(maxsize=8)
def _done(count: TokenCounter) -> Growing[_Done]:
    """Return the function from whole rounds to what was done up to each of their messages."""

    def make(messages: Sequence[BaseMessage], before: _Done | None) -> Sequence[_Done]:
        found = (_lines(messages, at, count) for at in range(len(messages)))
        return [*accumulate(found, _Done.after, initial=before or _Done())][1:]

    return Growing(make)


def _lines(
    messages: Sequence[BaseMessage], at: int, count: TokenCounter
) -> Iterator[tuple[int, str, str, int | None]]:
    """Yield the lines for a message: rank, text, name, and how far on the message is to read on."""
    message = messages[at]
    if message.type != "ai":
        return
    if said := one_line(cleaned(visible_text(message))):
        words = _head(said, _SAID, count)
        yield 1, render("index_said", words=words), "", None if words == said else 0
    results = _results(messages, at)
    for call in calls(message):
        tool, args, more = one_line(str(call["name"])), call.get("args"), None
        asked, brief = count(arguments(call)), arguments({"args": _brief(args, count)})
        line, rank = f"{tool} {_head(one_line(brief), _SAID, count)}", 2 if asked > _SHORT else 1
        found = results.get(call.get("id"))
        if found is not None:
            result = cleaned(text_of(messages[found]))
            tokens, said = count(result), one_line(result)
            if tokens > _SHORT:
                said, more = _telling(result, count), found - at
                rank = rank if said or tokens <= asked else 0
            said = said or render("index_tokens", tokens=tokens)
            line = render("index_call", call=line, result=said)
        name = "" if tool in MEMORY_TOOLS else f"{_short(tool)} {_short(_subject(args))}".strip()
        yield rank, line, name, more


def _brief(value: Any, count: TokenCounter) -> Any:
    """Return arguments with long texts cut: of such a text stands the first line, or its head.

    Of two that begin alike, as the old and the new text of an edit, it stands where they differ.
    """
    if isinstance(value, str):
        words, first = one_line(value), one_line(value.strip().partition("\n")[0])
        is_short = count(words) <= _SHORT
        return words if is_short else f"{_head(first, _SHORT, count).removesuffix('…')}…"
    if isinstance(value, Mapping):
        begun = dict[str, int]()
        for one, two in pairwise(
            sorted({text for text in value.values() if isinstance(text, str)})
        ):
            same = Prefix.similarity(one, two)
            begun |= {one: max(begun.get(one, 0), same), two: same}
        return {
            key: f"…{_brief(one[begun[one] - _ALIKE // 2 :], count)}"
            if isinstance(one, str) and begun.get(one, 0) > _ALIKE and count(one_line(one)) > _SHORT
            else _brief(one, count)
            for key, one in value.items()
        }
    return [_brief(one, count) for one in value] if isinstance(value, list) else value


def _telling(result: str, count: TokenCounter) -> str:
    """Return the last short line that tells how something ended, empty if none of the last does."""
    lines = [line for line in result.splitlines() if line.strip()][-_LAST_LINES:]
    found = [one_line(line).strip("=-*# ") for line in lines if _ENDED.search(line)]
    return next((line for line in reversed(found) if count(line) <= _SHORT), "")


_Spans: TypeAlias = Sequence[tuple[int, int]]
"""Rounds, from place to place, in order."""


def _spans(messages: Sequence[BaseMessage], cut: Rounds) -> tuple[_Spans, _Spans]:
    """Return the rounds that left, apart from those of efforts that were concluded, and these."""
    gone = [(begin, min(end, len(messages))) for _, begin, end in cut.gone]
    left, begin, others = min(cut.left, len(messages)), first_round(messages), []
    for first, end in (*sorted(gone), (left, left)):
        if begin < min(first, left):
            others.append((begin, min(first, left)))
        begin = max(begin, end)
    return others, gone


def _by_rank(done: Sequence[_Done], spans: _Spans) -> Iterator[_Line]:
    """Yield the lines of some rounds, those of the highest rank first, of each the newest."""
    for rank in reversed(range(_RANKS)):
        for begin, end in reversed(spans):
            line = done[end - 1].last[rank]
            while line is not None and line.at >= begin:
                yield line
                line = line.before


def _calls(done: Sequence[_Done], spans: _Spans) -> int:
    """Return how many calls some rounds have, without those of the memory's tools."""
    before = (done[begin - 1].calls if begin else 0 for begin, _ in spans)
    return sum(done[end - 1].calls for _, end in spans) - sum(before)


def _more(form: str, places: Sequence[Offsets], at: int, **said: str) -> str:
    return render(form, **said, offset=places[at].text)


def _names(lines: Iterable[_Line], number: int) -> str:
    """Return what some of these lines were called for; `number` is that of all their calls."""
    names = [*dict.fromkeys(line.name for line in islice(lines, _LOOKED_AT) if line.name)][:_NAMED]
    if others := number - len(names):
        names.append(render("index_others", others=others))
    return ", ".join(names) or "-"


def _concluded_lines(
    cut: Rounds, done: Sequence[_Done], places: Sequence[Offsets], limit: int, count: TokenCounter
) -> list[str]:
    """Return a line for each concluded effort, of the newest as many as fit.

    The others are named by their summaries, or among the older efforts.
    """
    efforts: dict[str, list[tuple[int, int]]] = {}
    for name, begin, end in cut.gone:
        efforts.setdefault(name, []).append((begin, min(end, len(done))))
    lines = list[str]()
    for name, parts in reversed(efforts.items()):
        called = _names(_by_rank(done, parts), _calls(done, parts))
        line = _more("index_concluded", places, parts[0][0], effort=_short(name), calls=called)
        limit -= count(f"{line}\n")
        if limit < 0:
            break
        lines.insert(0, line)
    return lines


def _results(messages: Sequence[BaseMessage], at: int) -> dict[object, int]:
    """Return the places of the results of the round that begins at this place, by call."""
    results: dict[object, int] = {}
    for place in range(at + 1, len(messages)):
        if messages[place].type == "ai":
            break
        if messages[place].type == "tool":
            results.setdefault(call_id(messages[place]), place)
    return results


def _head(words: str, limit: int, count: TokenCounter) -> str:
    """Return words, or their beginning, which ends in no word and no number.

    >>> _head("below 100 characters", 8, len)
    'below…'
    """
    end = len(words) if count(words) <= limit else word_end(words, fit(words, limit, count))
    return words if end == len(words) else f"{words[:end]}…"


def _subject(args: Any) -> str:
    """Return the first argument that is a short text: a path, a command or a query."""
    values = args.values() if isinstance(args, Mapping) else ()
    texts = (one_line(one) for one in values if isinstance(one, str) and len(one) <= _SUBJECT)
    return next((one for one in texts if any(map(str.isalnum, one))), "")


def _short(name: str) -> str:
    """Return a name of a tool or a subject cut short: of a path stays its end.

    >>> _short("python -m unittest -v 2>&1 | grep FAIL"), _short("src/" * 9 + "login.py")
    ('python -m unittest -v 2>&1 | gre…', '…src/src/src/src/src/src/login.py')
    """
    if len(name) <= _NAME:
        return name
    return f"{name[:_NAME]}…" if " " in name else f"…{name[-_NAME:]}"

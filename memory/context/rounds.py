"""Inside a long turn: which rounds are whole, which are previews, and the index of those that left.

A round is an answer of the model with its calls, and their results. A cut goes from the oldest
round to the newest, and the user's request is shortened last.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..efforts import one_line
from ..fences import Fences
from ..messages import Growing, arguments, call_id, calls
from ..messages import text as text_of
from ..running_turn import Turn
from ..spans import active_before, spans
from ..tokens import TokenCounter, count_message, count_messages, fit
from ..tool_names import DECIDING, MEMORY_TOOLS
from ..transcript import Offsets, offsets, visible_text
from ..turn import StoredTurn, first_round
from ..valid_history import valid_history
from .budget import LEAST_PREVIEW, first_below, ladder
from .forms import PREVIEW
from .plan import Rounds
from .shortening import (
    UNLIMITED,
    Limits,
    active_after,
    decisions,
    log_excerpt,
    previewed_each,
)

WHOLE_ROUNDS = 3
"""The newest rounds, which are cut after all others: what the model is working with."""

RESULT_SHARE = 4
"""One in how many tokens of the room a result may have whole."""

_INDEX_SHARE = 6  # one in how many tokens of the room the index may have
_REQUEST_SHARE = 4  # a request up to this share is never shortened for the results
_ACTIVE_SHARE = 12  # the note on the active effort: a goal and a few constraints
_LINE_TOKENS = 24  # tokens of the arguments, or of the words, in a line of the index
_CONCLUDED_SHARE = 3  # one in how many tokens of the index the lines of concluded efforts may have
_TOOLS_NAMED, _SUBJECTS_NAMED = 4, 4  # tools, and subjects, that a line for several rounds names
_SUBJECTS_OF_TOOL, _EFFORTS_NAMED = 3, 3  # subjects of one tool at most, merged efforts at least
_NAME, _SUBJECT = 32, 80  # characters of such a name, and of an argument that is one


def begins(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the places of the messages that begin a round.

    >>> begins([HumanMessage("x"), AIMessage("x"), HumanMessage("x"), AIMessage("y")])
    [1, 3]
    """
    return [at for at, message in enumerate(messages) if message.type == "ai"]


def older_cuts(turn: StoredTurn, before: Rounds | None) -> Iterator[Rounds]:
    """Yield deeper and deeper cuts of the rounds older than the last `WHOLE_ROUNDS`.

    Each is as deep as the one `before`, so that nothing that left or shrank comes back.
    """
    places = begins(turn.messages)
    yield (cut := replace(before or Rounds(), until=len(turn.messages)))
    older = [end for end in places[1 : 1 - WHOLE_ROUNDS] if end > cut.left]
    for end in older:
        yield (cut := cut.limited(end, PREVIEW, PREVIEW))
    for end in older:
        yield (cut := replace(cut, left=end))


def without_last_resorts(cut: Rounds, messages: Sequence[BaseMessage]) -> Rounds:
    """Return a cut without what the newest rounds of its time made necessary, as they may leave.

    That is a shorter request, an index of one line, and an excerpt for the rounds.
    """
    left, places = cut.left, begins(messages)
    if cut.excerpt and places:
        left = max(left, min(cut.until, places[-1]))
    return replace(cut, left=left, request=None, bare=False, excerpt=0)


def last_cuts(turn: StoredTurn, cut: Rounds, room: int) -> tuple[list[Rounds], list[Rounds]]:
    """Return deeper and deeper cuts of the last rounds but the newest, and then of the newest.

    None shortens a usual request.
    """
    places, until = begins(turn.messages), len(turn.messages)
    request = min(cut.request or room, room // _REQUEST_SHARE)
    cut = replace(cut, request=request)
    newest = places[-1] if places else until
    before = [cut, *_shrinking(cut, newest, room)]
    if places:
        before.append(replace(before[-1], left=max(cut.left, newest)))
    last = [*_shrinking(before[-1], until, room)]
    return before, [*last, replace(last[-1], bare=True)]


def least_cut(turn: StoredTurn, cut: Rounds, room: int) -> Rounds:
    """Return what of a turn its request's attachments leave room for: the newest round, cut short.

    All its results together have what one may have whole.
    """
    places, until = begins(turn.messages), len(turn.messages)
    newest = places[-1] if places else until
    tokens = room // RESULT_SHARE // max(1, until - newest - 1)
    request = min(cut.request or room, room // _REQUEST_SHARE)
    cut = replace(cut, request=request, left=max(cut.left, newest if places else 0), bare=True)
    return cut.limited(until, tokens, tokens)


def _shrinking(cut: Rounds, end: int, room: int) -> Iterator[Rounds]:
    """Yield cuts of the results before a place, then of the arguments too."""
    for tokens in ladder(room // RESULT_SHARE):
        yield (cut := cut.limited(end, tokens, None))
    for tokens in ladder(room // RESULT_SHARE):
        yield (cut := cut.limited(end, LEAST_PREVIEW, tokens))


def request_cuts(cut: Rounds, limit: int) -> Iterator[Rounds]:
    """Yield deeper and deeper cuts of the request, and at last an excerpt of `limit` tokens."""
    for tokens in ladder(cut.request or limit):
        yield (cut := replace(cut, request=tokens))
    yield replace(cut, excerpt=max(1, limit))


def cut_turn(
    turn: StoredTurn, messages: Sequence[BaseMessage], cut: Rounds, room: int, fences: Fences
) -> tuple[BaseMessage, ...]:
    """Return a turn's first `messages`, as the context shows them, after a cut.

    The request is followed by the index of the rounds that left, then by the other rounds. The
    `turn` may go on with messages that are not cut.
    """
    if cut.excerpt:
        return log_excerpt(turn, messages, cut.excerpt, fences)
    valid = partial(valid_history, fences=fences)
    first, away = first_round(messages), hidden(messages, cut)
    visible = [at for at in range(len(messages)) if at not in away]
    limits = [UNLIMITED] * len(messages)
    for at in visible:
        limits[at] = _limits(cut, at, messages[at], room)
    short = previewed_each(turn, messages, limits, fences.count)
    rest = [short[at] for at in visible if at >= first]
    limit = 0 if cut.bare else room // _INDEX_SHARE
    notes = [_index(turn, away, cut, limit, fences)] if away else []
    notes += _active_note(turn, [*rest, *turn.messages[len(messages) :]], room, fences)
    return (*valid(short[:first]), *notes, *valid(rest))


def hidden(messages: Sequence[BaseMessage], cut: Rounds) -> set[int]:
    """Return the places of the messages of rounds that left; what the user said stays."""
    first = first_round(messages)
    away = {*range(first, min(cut.left, len(messages)))}
    for _, begin, end in cut.gone:
        away |= {*range(max(first, begin), min(end, len(messages)))}
    return away.difference(at for at, kind in enumerate(_kinds(messages)) if kind == "human")


def out_of_view(messages: Sequence[BaseMessage], cut: Rounds) -> frozenset[int]:
    """Return the places of messages that are hidden, or may only be shown as previews."""
    shortened = max((end for end, *_ in cut.limits), default=0)
    return frozenset({*range(first_round(messages), shortened)} | hidden(messages, cut))


_kinds = Growing[str](lambda messages, _: [str(message.type) for message in messages])
_deciding = Growing[bool](
    lambda messages, _: [any(True for _ in decisions([message])) for message in messages]
)


def within(
    turn: StoredTurn, messages: Sequence[BaseMessage], limit: int, room: int, fences: Fences
) -> tuple[BaseMessage, ...]:
    """Return an unanswered turn within `limit` tokens, cut no deeper than needed."""

    def history(cut: Rounds) -> tuple[BaseMessage, ...]:
        return cut_turn(turn, messages, cut, room, fences)

    def tokens(cut: Rounds) -> int:
        return count_messages(history(cut), fences.count)

    cut = first_below(limit, older_cuts(turn, None), tokens)
    if tokens(cut) > limit:
        cut = first_below(limit, chain(*last_cuts(turn, cut, room)), tokens)
    if tokens(cut) > limit:
        cut = first_below(limit, request_cuts(cut, limit), tokens)
    return history(cut)


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
    places = begins(messages)
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
    turn: StoredTurn, shown: Sequence[BaseMessage], room: int, fences: Fences
) -> Iterator[BaseMessage]:
    """Yield the note on which effort the turn left active, unless what is shown says it."""
    decides = _deciding(turn.messages)
    active = active_after([one for at, one in enumerate(turn.messages) if decides[at]])
    if active is None or active == active_after(shown):
        return
    if not active:
        yield fences.note(render("none_active_then"))
        return
    name, *purpose = active

    def form(lines: str) -> str:
        return render("active_then", effort=name, quote=lines)

    yield fences.note_within("\n".join(purpose), room // _ACTIVE_SHARE, form)


def _index(
    turn: StoredTurn, away: set[int], cut: Rounds, limit: int, fences: Fences
) -> BaseMessage:
    """Return the index of the rounds that left: a line for each call, the oldest merged.

    Of a concluded effort, for whose rounds its summary stands, it says where they are read.
    """
    messages, places, count = turn.messages, offsets(turn.messages), fences.count
    left = sorted(away.difference(*(range(begin, end) for _, begin, end in cut.gone)))
    called = _called(messages)
    made = [one for at in left for one in called[at]]
    head = _concluded_lines(turn, cut, limit // _CONCLUDED_SHARE, count)
    newest = (
        line for at in reversed(left) for line in reversed([*_lines(messages, places, at, count)])
    )
    shown: list[_Line] = []

    def oldest() -> int:
        begin = next(at for at in left if called[at])
        return next(_lines(messages, places, begin, count)).offset

    def note(kept: int) -> BaseMessage:
        """Return the index with so many of its newest lines, the older ones merged."""
        merged = _merged(made[: len(made) - kept], oldest)
        lines = [*head, *merged, *(one.text for one in reversed(shown[:kept]))]
        quote = "\n".join(lines)
        return fences.note(render("rounds_left_out", turn=turn.number, quote=quote))

    free = limit - count_message(note(0), count)
    for line in newest:
        free -= count(f"{line.text}\n")
        if free < 0:
            break
        shown.append(line)
    kept = len(shown)
    while kept and count_message(note(kept), count) > limit:
        kept -= 1
    return note(kept)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the index: its text, and where the log has it."""

    text: str
    offset: int


class _Called(NamedTuple):
    """A call of a tool and its subject; both are empty for words."""

    tool: str
    subject: str


def _calls_of(message: BaseMessage) -> tuple[_Called, ...]:
    """Return for each line of the index for a message what was called."""
    if message.type != "ai":
        return ()
    said = (_Called("", ""),) if one_line(visible_text(message)) else ()
    made = (
        _Called(one_line(str(call["name"])), _subject(call.get("args"))) for call in calls(message)
    )
    return (*said, *made)


def _subject(args: Any) -> str:
    """Return the first argument that is a short text: a path, a command or a query."""
    values = args.values() if isinstance(args, Mapping) else ()
    texts = (one_line(one) for one in values if isinstance(one, str) and len(one) <= _SUBJECT)
    return next((one for one in texts if any(map(str.isalnum, one))), "")


_called = Growing[tuple[_Called, ...]](lambda messages, _: [*map(_calls_of, messages)])


def _lines(
    messages: Sequence[BaseMessage], places: Sequence[Offsets], at: int, count: TokenCounter
) -> Iterator[_Line]:
    """Yield the lines of the index for a message: what it says, and its calls."""
    message = messages[at]
    if message.type != "ai":
        return
    if said := one_line(visible_text(message)):
        words = render("index_said", words=_head(said, count))
        yield _Line(words, places[at].text)
    results = _results(messages, at)
    for call, place in zip(calls(message), places[at].calls, strict=True):
        line = f"{one_line(str(call['name']))} {_head(one_line(arguments(call)), count)}"
        found = results.get(call.get("id"))
        if found is not None:
            tokens = count(text_of(messages[found]))
            line = render("index_call", call=line, tokens=tokens, offset=places[found].text)
        yield _Line(line, place)


def _concluded_lines(turn: StoredTurn, cut: Rounds, limit: int, count: TokenCounter) -> list[str]:
    """Return a line for each concluded effort, the oldest merged."""
    called, places = _called(turn.messages), offsets(turn.messages)
    made: dict[str, list[_Called]] = {}
    begins: dict[str, int] = {}
    for name, begin, end in cut.gone:
        begins.setdefault(name, places[begin].text)
        work = (one for each in called[begin:end] for one in each if one.tool not in DECIDING)
        made.setdefault(name, []).extend(work)
    names = [*begins]
    lines = [
        render("index_concluded", effort=name, calls=_numbered(made[name]), offset=begins[name])
        for name in names
    ]
    sizes = [count(f"{line}\n") for line in lines]

    def merged(first: int, named: int) -> str:
        """Return the line of so many first efforts, with the names of some of them."""
        efforts = _listed([*map(_short, names[:named])], first)
        calls_made = _numbered([one for name in names[:first] for one in made[name]])
        offset = begins[names[0]]
        return render("index_concluded_before", efforts=efforts, calls=calls_made, offset=offset)

    def tokens(first: int, named: int) -> int:
        return count(f"{merged(first, named)}\n")

    for first in range(2, len(names) + 1 if sum(sizes) > limit else 0):
        free, is_last = limit - sum(sizes[first:]), first == len(names)
        if free < 0 and not is_last:
            continue
        named = bisect_right(range(1, first + 1), free, key=partial(tokens, first))
        if named >= min(first, _EFFORTS_NAMED) or is_last:
            return [merged(first, max(1, named)), *lines[first:]]
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


def _head(words: str, count: TokenCounter) -> str:
    return words if count(words) <= _LINE_TOKENS else f"{words[: fit(words, _LINE_TOKENS, count)]}…"


def _merged(made: Sequence[_Called], offset: Callable[[], int]) -> Iterator[str]:
    """Yield the line that stands for the oldest lines, of these calls."""
    if made:
        yield render("index_merged", calls=_numbered(made), offset=offset())


def _numbered(made: Sequence[_Called]) -> str:
    """Return how often each tool was called, and for what, for example "edit 1 (a.py), run 9".

    A tool that was called once says more than one that was called ten times. The memory's own are
    only named if no other was called.
    """
    called = [one for one in made if one.tool and one.tool not in MEMORY_TOOLS]
    called = called or [one for one in made if one.tool]
    tools = Counter(one.tool for one in called)
    free, named = _SUBJECTS_NAMED, []
    for tool in sorted(tools, key=tools.__getitem__)[:_TOOLS_NAMED]:
        subjects = Counter(one.subject for one in called if one.tool == tool and one.subject)
        most = subjects.most_common(min(free, _SUBJECTS_OF_TOOL))
        about = [*dict.fromkeys(_short(subject) for subject, _ in most)]  # some begin alike
        free -= len(about)
        named.append(f"{_short(tool)} {tools[tool]}")
        named[-1] += f" ({_listed(about, len(subjects))})" if about else ""
    return _listed(named, len(tools)) or "-"


def _listed(named: Sequence[str], number: int) -> str:
    """Return some of a number of things, and how many more there are."""
    others = number - len(named)
    more = [render("index_others", others=others)] if others else []
    return ", ".join([*named, *more])


def _short(name: str) -> str:
    """Return a name of a tool or a subject cut short: of a path stays its end.

    >>> _short("python -m unittest -v 2>&1 | grep FAIL"), _short("src/" * 9 + "login.py")
    ('python -m unittest -v 2>&1 | gre…', '…src/src/src/src/src/src/login.py')
    """
    if len(name) <= _NAME:
        return name
    return f"{name[:_NAME]}…" if " " in name else f"…{name[-_NAME:]}"

"""When the plan changes, and what it then shows."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from operator import itemgetter

from ..decay import PUT_OFF, collapsed, due, evicted
from ..efforts import Efforts
from ..names import ranges
from ..running_turn import Turn
from ..serialised import fingerprint
from ..spans import event_of
from ..state_block import as_users_see
from ..tokens import TokenCounter
from ..transcript import transcript
from ..turn import Event, StoredTurn
from .budget import log_limit
from .forms import has_long_results, is_whole, least_tokens
from .plan import Plan, Rounds, Why
from .rounds import concluded
from .summaries import fitting

WHOLE_RESULTS = 3
"""The newest turns shown whose long results stand there whole: what is being worked with."""

_CHANGING: Mapping[str, Why] = {
    "concluded": "concluded",
    "collapsed": "collapsed",
    "reopened": "reopened",
    "returned": "returned",
    "moved": "expanded",
}
"""The events that change the plan in their turn; other ones only append to the context."""

_MOST_OLD_BLOCKS = 3  # state blocks that are no longer true: twelve took a third of a prompt
_CACHE_SECONDS = 300  # seconds that a provider keeps a prefix: Anthropic 5 minutes, OpenAI 5 to 10
_SMALLEST_TURN = 8  # tokens of the smallest turn: no more turns are read than could fit
_CHUNK = 50  # turns that are read at once; a small room needs no more


def before_turn(work: Turn, now: str) -> Turn:
    """Return the running turn with the plan it begins with; `now` is its time, ISO 8601 in UTC.

    With a new plan those summaries leave that were due after the turn before.
    """
    plan = work.plan
    if plan is None:
        return replace(work, plan=new_plan(work, "new"))
    why = _why_before(work, plan, now)
    if why is None:
        return work
    work = work.put(evicted(work.efforts, work.run.settings, work.view.tip.turn))
    return replace(work, plan=new_plan(work, why))


def before_first_call(work: Turn) -> Turn:
    """Return the turn with the plan of its first call, whose room may be known only then.

    It shows what was compressed since its plan was made.
    """
    plan = work.plan
    if plan is None or any(message.type == "ai" for message in work.view.running.messages):
        return work
    if not _is_made_for(work, plan):
        is_unsent = plan.after_turn == work.view.tip.turn
        return replace(work, plan=new_plan(work, plan.why if is_unsent else "settings"))
    for name, turn in _compressions(work).items():
        if turn >= plan.after_turn and plan.quotes.get(name) != turn:
            return replace(work, plan=new_plan(work, "compressed"))
    return work


def after_tools(work: Turn, before: Efforts) -> Turn:
    """Return the turn after memory tools ran, with the plan of the next call in the same turn."""
    why = _changing(work.efforts.events[len(before.events) :])
    if work.plan is None or why is None:
        return work
    return replace(work, plan=new_plan(work, why, inside=True))


def end_turn(work: Turn) -> Turn:
    """Return the turn at its end: what faded has collapsed, and the plan is that of the next turn.

    Summaries that are due leave together, with a change of the plan.
    """
    if work.efforts.expanded:
        work = work.put(collapsed(work.efforts, work.run.settings))
    plan = work.plan
    why = "new" if plan is None else _why_after(work, plan)
    if why is None:
        return work
    work = work.put(evicted(work.efforts, work.run.settings, work.efforts.turn))
    return replace(work, plan=new_plan(work, why, ended=True))


def new_plan(work: Turn, why: Why, *, ended: bool = False, inside: bool = False) -> Plan:
    """Return what the context shows from now on; turns that had to leave before stay away.

    These are uncompressed turns of open efforts, the last ambient turns and the last turn: as many
    as could fit. A turn that has `ended` counts as past, though it is not
    committed yet; `inside` a turn its events and messages so far are known.
    """
    view, state, before = work.view, work.efforts, _comparable(work)
    last = view.running.number if ended else view.tip.turn
    limit = max(1, work.room // _SMALLEST_TURN)
    reopened, own = _open_effort_turns(work, limit, ended=ended)
    wanted = {last, *_ambient(work, limit, ended=ended), *chain(*own.values())}
    if before is not None:
        back = {*chain(*(turns for name, turns in own.items() if name not in before.open))}
        wanted = {turn for turn in wanted if before.shows(turn) or turn in back}
    turns = _newest_fitting(work, sorted(t for t in wanted if 0 < t <= last)[-limit:])
    previews = max([before.previews if before else 0, *turns[:-WHOLE_RESULTS]])
    summaries, older, unnamed = fitting(work)
    short = f"+{work.short}" if work.short else ""
    return Plan(
        last,
        turns=tuple(turns),
        previews=previews,
        rounds=None if ended else _rounds(work, before),
        summaries=summaries,
        older=older,
        unnamed=unnamed,
        open=tuple(state.open),
        active=state.active or "",
        application=work.application.key,
        todos=work.todos,
        quotes=_compressions(work),
        logs=_logs(work, reopened, before),
        key=f"{_shaping(work)}:{work.room}{short}",
        why=why,
        within=len(view.running.messages) + len(work.results) if inside else 0,
        events=len(state.events) if inside else 0,
    )


def _compressions(work: Turn) -> dict[str, int]:
    """Return after which turn each open effort was compressed last, the newest at the end."""
    made = {name: one.turn for name in work.efforts.open if (one := work.view.compression(name))}
    return dict(sorted(made.items(), key=itemgetter(1)))


def _rounds(work: Turn, before: Plan | None) -> Rounds | None:
    """Return how much of the running turn is shown: what left it does not come back."""
    same = before is not None and before.after_turn == work.view.tip.turn
    rounds = before.rounds if before is not None and same else None
    gone = concluded(work)
    if gone == (rounds.gone if rounds else ()):
        return rounds
    rounds = rounds or Rounds()
    return replace(rounds, gone=gone, until=max([rounds.until, *(end for *_, end in gone)]))


def _why_before(work: Turn, plan: Plan, now: str) -> Why | None:
    """Return why the plan changes before a turn, None if it does not."""
    is_said = plan.application == work.application.key
    if not is_said or not _is_made_for(work, plan):
        return "settings" if is_said else "application"
    tip = work.view.tip.turn
    newer = work.view.past.turns(range(plan.after_turn + 1, tip + 1))
    # A turn that was broken off has no end at which its changes took effect.
    broken_off = _changing(chain.from_iterable(turn.events for turn in newer))
    if broken_off or plan.after_turn > tip:
        return broken_off or "new"
    if work.run.settings.rebuild == "every-turn" and any(turn.is_aborted for turn in newer):
        return "every-turn"
    if is_edited(work, plan):
        return "edited"
    # A change is free where the provider has forgotten the prefix.
    times = [datetime.fromisoformat(turn.at) for turn in work.view.past.turns([tip]) if turn.at]
    ago = datetime.fromisoformat(now) - times[0] if times else timedelta()
    return "cold-cache" if ago.total_seconds() > _CACHE_SECONDS else None


def is_edited(work: Turn, plan: Plan) -> bool:
    """Tell whether the state says of the efforts what neither the plan nor an event since says."""
    state, opened, logs = work.efforts, {*plan.open}, plan.logs.keys() - {*plan.open}
    for event in _events_since(work, plan):
        opened |= {event["effort"]} if event["type"] == "opened" else set()
        logs |= {event["effort"]} if event["type"] == "expanded" else set()
    return not (
        opened == state.open.keys()
        and logs == state.expanded.keys()
        and {*plan.summaries} <= state.summaries.keys()
    )


def _events_since(work: Turn, plan: Plan) -> Iterator[Event]:
    for turn in work.view.past.turns(range(plan.after_turn + 1, work.view.tip.turn + 1)):
        yield from turn.events[plan.events if turn.number == plan.after_turn + 1 else 0 :]
    is_next = work.view.running.number == plan.after_turn + 1
    yield from work.efforts.events[plan.events if is_next else 0 :]


def _why_after(work: Turn, plan: Plan) -> Why | None:
    """Return why the plan changes at the end of the running turn, None if it does not."""
    settings, running = work.run.settings, work.view.running
    if settings.rebuild == "every-turn":
        return "every-turn"
    if why := _changing(work.efforts.events):
        return why
    newer = range(plan.after_turn + 1, work.view.tip.turn + 1)
    past = work.view.past.turns([*plan.turns, *newer])
    window = work.run.settings.ambient_window
    ambient = sum(not (turn.efforts or turn.is_aborted) for turn in past) + (not _efforts(work))
    if window and ambient > window + window // 2:
        return "window"
    if _old_blocks(work, plan, (*past, running)) > _MOST_OLD_BLOCKS:
        return "state-blocks"
    if work.efforts.summaries and due(work.efforts, settings, running.number - PUT_OFF):
        return "due"
    return "due" if _is_late(work, plan, past) else None


def _changing(events: Iterable[Event]) -> Why | None:
    """Return why the first of these events that does so changes the plan."""
    for event in events:
        if why := _CHANGING.get("moved" if event.get("moved") else event["type"]):
            return why
    return None


def _old_blocks(work: Turn, plan: Plan, turns: Sequence[StoredTurn]) -> int:
    """Count the state blocks in the context that a newer one has replaced."""
    if work.run.settings.anchor == "off":
        return 0
    blocks = 0
    for turn in turns:
        if turn.number > plan.after_turn:
            for one, other in zip(turn.messages, as_users_see(turn.messages), strict=True):
                blocks += one is not other
    return max(0, blocks - (not plan.anchor))


def _is_late(work: Turn, plan: Plan, turns: Sequence[StoredTurn]) -> bool:
    """Tell whether a turn has been shown for too long as if it were new.

    That is the last turn of an effort that was concluded, and a turn with long results. Turns
    without an answer do not count.
    """
    now = work.view.running.number
    aborted = [turn.number for turn in turns if turn.is_aborted]

    def is_late(since: int) -> bool:
        return now - since - sum(number > since for number in aborted) > PUT_OFF

    for number, turn in enumerate(turns):
        is_last = turn.number == plan.after_turn
        if is_last and is_late(turn.number) and not is_whole(turn, plan):
            return True
        newer = [*(turn.number for turn in turns), now][number + WHOLE_RESULTS :]
        if not newer or not is_late(newer[0] - 1):
            break
        if turn.number > plan.previews and has_long_results(work, turn):
            return True
    return False


def _shaping(work: Turn) -> str:
    settings = work.run.settings
    return fingerprint([settings.ambient_window, settings.anchor, settings.rebuild], 8)


def _is_made_for(work: Turn, plan: Plan) -> bool:
    is_same = plan.key.partition(":")[0] == _shaping(work)
    return is_same and plan.usual_room == work.room + work.short


def _comparable(work: Turn) -> Plan | None:
    """Return the plan before, None if none was made with these settings and as much room."""
    before = work.plan
    if before is None or before.after_turn > work.view.tip.turn:
        return None
    same = before.key.partition(":")[0] == _shaping(work)
    room = work.room + work.short
    return before if same and room <= (before.usual_room or room) else None


def _logs(work: Turn, reopened: Mapping[str, int], before: Plan | None) -> dict[str, str]:
    """Return the turns of the logs of expanded efforts and of `reopened` ones, by effort.

    What had to leave since it was expanded or reopened stays away.
    """
    known = dict(before.logs) if before else {}
    for event in _events_since(work, before) if before else ():
        if event["type"] in {"expanded", "reopened"} and "again" not in event:
            known.pop(event["effort"], None)
    logs: dict[str, str] = {}
    for name, turn in reopened.items():
        older = [number for number in work.view.log_turns(name) if number < turn]
        log = work.view.past.turns(older)[::-1] if name not in known else ()
        newest = fitting_turns(log, log_limit(work.room), work.run.count)
        logs[name] = known.get(name, ranges([one.number for one in newest]))
    for name, entry in work.efforts.expanded.items():
        logs[name] = ranges(sorted(entry["turns"])) if known.get(name, "new") else ""
    return logs


def fitting_turns(
    ordered: Iterable[StoredTurn], free: int, count: TokenCounter
) -> list[StoredTurn]:
    """Return as many turns as are `free`, the first ones preferred, ascending; at least one."""
    chosen: dict[int, StoredTurn] = {}
    for turn in ordered:
        tokens = count(transcript([turn]))
        if turn.number not in chosen and (tokens <= free or not chosen):
            chosen[turn.number] = turn
            free -= tokens
    return [chosen[number] for number in sorted(chosen)]


def _ambient(work: Turn, limit: int, *, ended: bool) -> list[int]:
    """Return the ambient turns in the window, at most `limit`.

    A turn without an answer takes no place: it leaves with the answered one that follows it.
    """
    window = min(work.run.settings.ambient_window or limit, limit)
    running = [work.view.running.number] if ended and not _efforts(work) else []
    free, count = window - len(running), window + 1
    while True:
        turns = work.view.past.ambient(count)
        answered = [turn.number for turn in work.view.past.turns(turns) if not turn.is_aborted]
        if len(answered) > free or len(turns) < count or count > limit:
            break
        count *= 2
    before = answered[-free - 1] if len(answered) > free else 0
    return [turn for turn in (*turns, *running) if turn > before]


def _efforts(work: Turn) -> set[str]:
    """Return the efforts of a turn that has ended, those that it left for another one too."""
    names = {*work.view.running.efforts}
    for event in event_of(work.view.running.messages, work.efforts):
        names |= {name for name, *_ in event["spans"] if name}
    return names


def _open_effort_turns(
    work: Turn, limit: int, *, ended: bool
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return when efforts with an older log were reopened, and the turns to show of each open one.

    An effort has up to `limit` turns: the newest uncompressed ones since it was (re)opened. Its
    older turns are shown as a log where it was reopened, until they are compressed.
    """
    running = work.view.running
    own = _efforts(work) if ended else ()
    reopened: dict[str, int] = {}
    turns: dict[str, list[int]] = {}
    for name, entry in work.efforts.open.items():
        log, opened = [*work.view.log_turns(name)], entry["opened_turn"]
        log += [running.number] if name in own else []
        compression = work.view.compression(name)
        if compression is None and log and log[0] < opened:
            reopened[name] = opened
        begin = bisect_left(log, compression.through + 1 if compression else opened)
        turns[name] = log[begin:][-limit:]
    return reopened, turns


def _newest_fitting(work: Turn, turns: list[int]) -> list[int]:
    """Return the newest of these turns, as many as could fit, the last ones in any case."""
    free, fitting, unread = work.room, turns[-WHOLE_RESULTS:], turns[:-WHOLE_RESULTS]
    while unread:
        for turn in reversed(work.view.past.turns(unread[-_CHUNK:])):
            free -= min(least_tokens(work, turn), work.room // 2)  # a huge one is shortened
            if free < 0:
                return fitting
            fitting = [turn.number, *fitting]
        unread = unread[:-_CHUNK]
    return fitting

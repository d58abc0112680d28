"""Opening, switching, closing and reopening efforts, and changing their goal."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import banners
from ..efforts import Effort, EffortState, aims, as_shown, happened, snapshot, within_limit
from ..errors import AnswerError, ToolError
from ..names import is_qualified, slug
from ..questions import Asks
from ..running_turn import Outcome, RunningTurn
from ..transcript import transcript
from .arguments import Active, Open, Reopen, UpdateGoal
from .recall import brought_back, fitting
from .summary import summarise

MOST_OPEN = 32
"""A bound against a model that opens one for every message; nobody keeps as many apart."""


def open_effort(work: RunningTurn, args: Open) -> Outcome:
    """Begin an effort and make it active."""
    name = slug(args.name)
    _refuse_taken(work, name)
    _refuse_crowd(work)
    effort = Effort(name, "open", goal=args.goal, constraints=tuple(args.constraints))
    event = {"type": "opened", **snapshot(effort), **_related(work, effort)}
    space = happened(work.space, event, banners.started(name))
    return work.put(space), {"status": "opened", "effort_id": name}


def switch_effort(work: RunningTurn, args: Active) -> Outcome:
    """Make another open effort the active one; without a name none is, and all stay open."""
    if not args.effort_id.strip():
        return _paused(work)
    effort = work.find_open(args.effort_id)
    space = work.space
    if space.active != effort.id:
        event = {"type": "switched", "effort": effort.id}
        space = happened(space, event, banners.switched(effort.id))
    return work.put(space), {"status": "switched", "effort_id": effort.id, **aims(effort)}


def reopen_effort(work: RunningTurn, args: Reopen) -> Outcome:
    """Go on with a concluded effort; its log continues, a goal takes the place of the old one."""
    effort = work.find_own(args.effort_id)
    if effort.status == "open":
        raise ToolError(f"effort {effort.id!r} is open already; use switch_effort to go on with it")
    _refuse_crowd(work)
    made = work.view.compression(effort.id)
    event = {"type": "reopened", **snapshot(effort)}
    if made is not None:
        event["compressed"] = made.turn
    space = happened(work.space, event, banners.reopened(effort.id))
    aimed = _aimed(effort, args.goal)
    result = {"status": "reopened", "effort_id": effort.id, "prior_summary": effort.summary}
    result |= aims(aimed) | _log(work, effort)
    return work.put(_updated(space, effort, aimed)), result


def update_goal(work: RunningTurn, args: UpdateGoal) -> Outcome:
    """Change goal and constraints of the active effort; the change is recorded with its turn."""
    if work.space.active is None:
        listed = ", ".join(work.space.open) or "none"
        raise ToolError(
            "no effort is active, so there is no goal to update; "
            f"use switch_effort or open_effort first; open: {listed}"
        )
    added, dropped = _worded(args.add_constraints), _worded(args.drop_constraints)
    if not (args.goal.strip() or added or dropped):
        raise ToolError("nothing to update: goal, add_constraints and drop_constraints are empty")
    effort = work.find(work.space.active)
    changed = replace(_aimed(effort, args.goal), constraints=_constraints(effort, added, dropped))
    space = _updated(work.space, effort, changed, args.rationale)
    return work.put(space), {"status": "updated", "effort_id": effort.id, **aims(changed)}


def _log(work: RunningTurn, effort: Effort) -> dict[str, Any]:
    """Return what is said of the log that stands in the context again, its newest turns."""
    log = work.view.log(effort.id)
    return brought_back(work, effort, log, fitting(work, log[::-1])) if log else {}


def _paused(work: RunningTurn) -> Outcome:
    active = work.space.active
    if active is None:
        return work, {"status": "paused"}
    event = {"type": "paused", "effort": active}
    space = happened(work.space, event, banners.paused(active))
    return work.put(space), {"status": "paused", "effort_id": active}


def _aimed(effort: Effort, goal: str) -> Effort:
    return replace(effort, goal=goal) if goal.strip() else effort


def _worded(constraints: Sequence[str]) -> list[str]:
    return [said for one in constraints if (said := one.strip())]


def _constraints(effort: Effort, added: Sequence[str], dropped: Sequence[str]) -> tuple[str, ...]:
    """Return the constraints of an effort without some and with others, word for word.

    Those that go may be named as the context shows them.
    """
    known = set(map(as_shown, effort.constraints))
    for one in dropped:
        if as_shown(one) not in known:
            listed = "; ".join(map(repr, effort.constraints)) or "none"
            raise ToolError(
                f"no constraint {one!r} of {effort.id!r} to drop; those that hold: {listed}"
            )
    gone = set(map(as_shown, dropped))
    left = [one for one in effort.constraints if as_shown(one) not in gone]
    return tuple(dict.fromkeys([*left, *added]))


def _updated(space: EffortState, before: Effort, after: Effort, why: str = "") -> EffortState:
    """Return the state with what changed between two states of an effort, if anything did."""
    told = {**snapshot(after), "rationale": why}
    if after.goal != before.goal:
        event = {"type": "goal_updated", **told}
        space = happened(space, event, banners.goal_updated(after.id))
    if after.constraints != before.constraints:
        event = {"type": "constraints_updated", **told}
        space = happened(space, event, banners.constraints_updated(after.id))
    return space


def _related(work: RunningTurn, effort: Effort) -> dict[str, list[str]]:
    """Return what other sessions have on an effort and the context lacks, if anything."""
    if work.related is None or not work.settings.recall_hints:
        return {}
    asked = work.related(f"{effort.id} {effort.goal}".strip())
    away = [name for name in asked if is_qualified(name) and name not in work.space.summaries]
    found = [one.id for one in work.view.efforts_named(away, work.space.events)]
    related = [name for name in found if is_qualified(name)][: work.settings.recall_hints]
    return {"related": related} if related else {}


def _refuse_taken(work: RunningTurn, name: str) -> None:
    taken = work.view.effort(name, work.space.events)
    if taken is not None:
        tool = "switch_effort" if taken.status == "open" else "reopen_effort"
        raise ToolError(
            f"an effort {name!r} exists already and is {taken.status}; "
            f"use {tool} to go on with it, or choose another name"
        )


def _refuse_crowd(work: RunningTurn) -> None:
    efforts = work.space.open
    if len(efforts) >= MOST_OPEN:
        idle = min(efforts, key=lambda name: efforts[name]["last_active_turn"])
        raise ToolError(
            f"{len(efforts)} efforts are open, and no more than {MOST_OPEN} "
            f"may be; close one first, for example {idle!r}, which was idle longest"
        )


def close_effort(work: RunningTurn, args: Active) -> Asks[Outcome]:
    """Conclude an effort, the active one by default; a failed summary leaves it open."""
    effort = _to_close(work, args)
    log = work.view.log(effort.id, running=True)
    try:
        answer = yield from summarise(effort, log, work.settings, work.count)
    except AnswerError as error:
        raise ToolError(
            f"the summary of {effort.id!r} failed ({error}), so it stays open and nothing changed; "
            "tell the user, and try close_effort again later"
        ) from error
    concluded = replace(
        effort,
        summary=answer.summary,
        keywords=tuple(answer.keywords),
        importance=answer.importance,
        tokens=work.count(transcript(log)),
        stale=False,
    )
    space = _concluded(work, concluded)
    result = {"status": "concluded", "effort_id": effort.id, "summary": answer.summary}
    return work.put(space), result | ({"active": space.active} if space.active else {})


def _to_close(work: RunningTurn, args: Active) -> Effort:
    effort_id = args.effort_id.strip() or work.space.active
    if not effort_id:
        listed = ", ".join(work.space.open) or "none"
        raise ToolError(f"no effort is active, so name the one to close; open: {listed}")
    return work.find_open(effort_id)


def _concluded(work: RunningTurn, effort: Effort) -> EffortState:
    event = {"type": "concluded", **snapshot(effort)}
    space = happened(work.space, event, banners.concluded(effort.id, effort.summary))
    return within_limit(space)

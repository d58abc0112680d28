"""Opening, switching, reopening efforts, and changing their goal."""

from dataclasses import replace

from . import banners
from .arguments import EffortId, Open, UpdateGoal
from .desk import Desk, Outcome
from .efforts import Effort, snapshot
from .errors import ToolError
from .names import slug
from .qualified import is_qualified
from .transitions import happened


def open_effort(desk: Desk, args: Open) -> Outcome:
    """Begin an effort and make it active."""
    name = slug(args.name)
    _refuse_taken(desk, name)
    _refuse_crowd(desk)
    effort = Effort(name, "open", goal=args.goal, constraints=tuple(args.constraints))
    event = {"type": "opened", **snapshot(effort), **_related(desk, effort)}
    space = happened(desk.space, event, banners.started(name))
    return desk.put(space), {"status": "opened", "effort_id": name}


def switch_effort(desk: Desk, args: EffortId) -> Outcome:
    """Make another open effort the active one."""
    effort = desk.find_open(args.effort_id)
    space = desk.space
    if space.active != effort.id:
        event = {"type": "switched", "effort": effort.id}
        space = happened(space, event, banners.switched(effort.id))
    return desk.put(space), {"status": "switched", "effort_id": effort.id}


def reopen_effort(desk: Desk, args: EffortId) -> Outcome:
    """Go on with a concluded effort; its log continues."""
    effort = desk.find_own(args.effort_id)
    if effort.status == "open":
        raise ToolError(f"effort {effort.id!r} is open already; use switch_effort to go on with it")
    _refuse_crowd(desk)
    made = desk.view.compression(effort.id)
    event = {"type": "reopened", **snapshot(effort)}
    if made is not None:
        event["compressed"] = made.turn
    space = happened(desk.space, event, banners.reopened(effort.id))
    result = {"status": "reopened", "effort_id": effort.id, "prior_summary": effort.summary}
    return desk.put(space), result


def update_goal(desk: Desk, args: UpdateGoal) -> Outcome:
    """Change the goal of the active effort; the change is recorded with its turn."""
    if desk.space.active is None:
        raise ToolError("no effort is active, so there is no goal to update; use open_effort first")
    if not args.goal.strip():
        raise ToolError(f"the goal {args.goal!r} is empty; say in one sentence what is wanted")
    effort = replace(desk.find(desk.space.active), goal=args.goal)
    event = {"type": "goal_updated", **snapshot(effort), "rationale": args.rationale}
    space = happened(desk.space, event, banners.goal_updated(effort.id))
    return desk.put(space), {"status": "updated", "effort_id": effort.id, "goal": effort.goal}


def _related(desk: Desk, effort: Effort) -> dict[str, list[str]]:
    """Return what other sessions have on an effort and the context lacks, if anything."""
    if desk.related is None or not desk.settings.recall_hints:
        return {}
    asked = desk.related(f"{effort.id} {effort.goal}".strip())
    away = [name for name in asked if is_qualified(name) and name not in desk.space.summaries]
    found = [one.id for one in desk.view.efforts_named(away, desk.space.events)]
    related = [name for name in found if is_qualified(name)][: desk.settings.recall_hints]
    return {"related": related} if related else {}


def _refuse_taken(desk: Desk, name: str) -> None:
    taken = desk.view.effort(name, desk.space.events)
    if taken is not None:
        tool = "switch_effort" if taken.status == "open" else "reopen_effort"
        raise ToolError(
            f"an effort {name!r} exists already and is {taken.status}; "
            f"use {tool} to go on with it, or choose another name"
        )


def _refuse_crowd(desk: Desk) -> None:
    efforts = desk.space.open
    if len(efforts) >= desk.settings.max_open_efforts:
        idle = min(efforts, key=lambda name: efforts[name]["last_active_turn"])
        raise ToolError(
            f"{len(efforts)} efforts are open, and no more than {desk.settings.max_open_efforts} "
            f"may be; close one first, for example {idle!r}, which was idle longest"
        )

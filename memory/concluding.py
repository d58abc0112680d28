"""Concluding an effort: its raw log is summarised and leaves the context."""

from dataclasses import replace

from . import banners
from .arguments import Active
from .desk import Desk, Outcome
from .efforts import Effort, snapshot
from .errors import AnswerError, ToolError
from .questions import Asks
from .summary import summarise
from .transcript import transcript
from .transitions import happened, within_limit
from .workspace import Workspace


def close_effort(desk: Desk, args: Active) -> Asks[Outcome]:
    """Conclude an effort, the active one by default; a failed summary leaves it open."""
    effort = _to_close(desk, args)
    log = desk.view.log(effort.id, running=True)
    try:
        answer = yield from summarise(effort, log, desk.settings, desk.count)
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
        tokens=desk.count(transcript(log)),
        stale=False,
    )
    result = {"status": "concluded", "effort_id": effort.id, "summary": answer.summary}
    return desk.put(_concluded(desk, concluded)), result


def _to_close(desk: Desk, args: Active) -> Effort:
    effort_id = args.effort_id.strip() or desk.space.active
    if not effort_id:
        listed = ", ".join(desk.space.open) or "none"
        raise ToolError(f"no effort is active, so name the one to close; open: {listed}")
    return desk.find_open(effort_id)


def _concluded(desk: Desk, effort: Effort) -> Workspace:
    event = {"type": "concluded", **snapshot(effort)}
    space = happened(desk.space, event, banners.concluded(effort.id, effort.summary))
    return within_limit(space, desk.settings.summaries_limit)

"""Writing redacted summaries again, from what remains of their logs."""

import logging
from collections.abc import Iterator
from dataclasses import replace

from ..memory.archive.protocol import Archive
from ..memory.efforts import Effort
from ..memory.errors import SummaryError
from ..memory.record import Owner, Tip
from ..memory.summary import EffortSummary
from ..memory.summary import summarise as summarising
from .collaborators import Collaborators
from .summarising import summarise

_log = logging.getLogger("ebbtide.summary")


def resummarise(collaborators: Collaborators, owner: Owner) -> dict[str, bool]:
    """Summarise the concluded efforts of a session that are stale; tell which succeeded.

    Those whose call fails keep the redacted summary and stay stale.
    """
    done: dict[str, bool] = {}
    archive = collaborators.archive
    for tip in archive.tips(owner):
        for effort in _stale(archive, owner, tip):
            answer = _answer(collaborators, owner, tip, effort)
            done[effort.id] = answer is not None and done.get(effort.id, True)
            if answer is not None:
                archive.resummarised(owner, tip, _with(effort, answer))
    return done


def _stale(archive: Archive, owner: Owner, tip: Tip) -> Iterator[Effort]:
    total = archive.efforts(owner, tip, 0).total
    for effort in archive.efforts(owner, tip, total).efforts:
        if effort.stale and effort.status == "concluded":
            yield effort


def _answer(
    collaborators: Collaborators, owner: Owner, tip: Tip, effort: Effort
) -> EffortSummary | None:
    archive = collaborators.archive
    turns = archive.effort_turns(owner, tip, effort.id)
    records = archive.turns(owner, tip, [turn for turn in turns if turn <= effort.turn])
    log = [record for record in records if record.status != "erased"]
    steps = summarising(effort, log, collaborators.settings, collaborators.count)
    try:
        request = next(steps)
        while True:
            answer = summarise(collaborators.summary_model, request)
            if isinstance(answer, SummaryError):
                raise answer
            request = steps.send(answer)
    except StopIteration as end:
        summary: EffortSummary = end.value
        return summary
    except SummaryError as error:
        _log.warning("the summary of %r stays redacted: %s", effort.id, error)
        return None


def _with(effort: Effort, answer: EffortSummary) -> Effort:
    return replace(
        effort,
        summary=answer.summary,
        keywords=tuple(answer.keywords),
        importance=answer.importance,
        stale=False,
    )

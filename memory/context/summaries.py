"""The memory part of the context: a line for each concluded effort, and the names of older ones."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..dates import day_of
from ..efforts import Effort, changes, one_line
from ..facts import ENDED, Fact, behind, holding, is_fact
from ..names import is_qualified
from ..running_turn import Turn
from ..tokens import count_messages, cut_marked
from .budget import part_limit

_RULES_SHARE = 4
"""The rules of other sessions have lines in one of four tokens of the share, the others names."""

NAMED = 20
"""Older efforts that are named at most: a model asked for one then needs no search for its id."""


def fitting(work: Turn) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return the efforts that get a line, the older ones that are named, and how many are not.

    The lines are those of the efforts that were concluded last, as many as fit, so that a reference
    does not exchange them; efforts of other sessions count by when they were referenced. Before
    these come the newest rules, within a quarter of the share. Names take what they leave.
    """
    limit = part_limit("memory", work.room)
    stored = work.view.efforts_named([*work.efforts.summaries], work.efforts.events)
    known = known_facts(work, stored)
    current = holding(known)
    shown = [one for one in stored if current.get(one.id) is known.get(one.id)]
    every = summary_lines(work, shown, work.room, known)
    last = {name: entry["last_referenced_turn"] for name, entry in work.efforts.summaries.items()}
    last |= {effort.id: effort.turn for effort in stored if not is_qualified(effort.id)}
    rules = [name for name, fact in known.items() if name in every and fact.field == "Rules"]
    sizes = accumulate(work.run.count(f"{every[name]}\n") for name in rules)
    unlisted = rules[bisect_right([*sizes], limit // _RULES_SHARE) :]
    others = sorted((name for name in every if name not in rules), key=last.__getitem__)[::-1]
    newest = [*rules[: len(rules) - len(unlisted)], *others]
    concluded = _count_concluded(work) + len(unlisted)

    def first(number: int) -> dict[str, str]:
        chosen = {*newest[:number]}
        return {name: line for name, line in every.items() if name in chosen}

    def size(lines: Mapping[str, str], older: Sequence[str], unnamed: int) -> int:
        return count_messages(summary_notes(work, lines, older, unnamed), work.run.count)

    steps = range(1, len(newest) + 1)
    lines = first(bisect_right(steps, limit, key=lambda number: size(first(number), (), concluded)))
    left = max(0, concluded - sum(not is_qualified(name) for name in lines))
    older = [*unlisted]
    if left > len(unlisted):
        there = {*lines, *work.efforts.open}
        found = work.view.past.efforts(len(there) + NAMED).efforts
        older += [effort.id for effort in found if effort.id not in there][:NAMED]
    steps = range(1, len(older) + 1)
    named = bisect_right(steps, limit, key=lambda n: size(lines, older[:n], max(1, left - n)))
    return (*lines,), (*older[:named],), max(0, left - named)


def summary_notes(
    work: Turn, lines: Mapping[str, str], older: Sequence[str], unnamed: int
) -> list[BaseMessage]:
    """Return the lines of concluded efforts as notes, with the efforts that have no line."""
    elsewhere = {name for name in lines if is_qualified(name)}
    earlier = [line for name, line in lines.items() if name in elsewhere]
    own = [line for name, line in lines.items() if name not in elsewhere]
    texts = [
        render(prompt, quote="\n".join(quoted))
        for prompt, quoted in (("earlier_sessions", earlier), ("memory", own))
        if quoted
    ]
    if older or unnamed:
        more = render("unnamed_efforts", efforts=unnamed) if unnamed else ""
        named = ", ".join(filter(None, [*older, more]))
        texts[-1:] = ["\n".join([*texts[-1:], render("older_efforts", efforts=named)])]
    return [*map(work.fences.note, texts)]


def summary_lines(
    work: Turn, efforts: Sequence[Effort], room: int, known: Mapping[str, Fact]
) -> dict[str, str]:
    """Return the line of each concluded effort, each cut so that one fits into the share.

    Efforts of other sessions stand first, with the day of their end: they are known from the first
    turn on and only leave, while efforts of this session are added at the end.
    """
    frames = (summary_notes(work, {name: ""}, (), 9_999) for name in ("a", "s/a"))
    frame = max(count_messages(messages, work.run.count) for messages in frames)
    limit = max(1, part_limit("memory", room) - frame)
    concluded = [effort for effort in efforts if effort.status == "concluded"]
    lines, before = {}, behind(known)
    for effort in sorted(concluded, key=lambda e: 0 if is_qualified(e.id) else e.turn):
        if fact := known.get(effort.id):
            texts, at = [fact.text, *(older.text for older in before[fact.id])], fact.at
        else:
            turns = work.view.turns_of(effort.id, [effort.turn]) if is_qualified(effort.id) else ()
            texts, at = [effort.summary], turns[0].at if turns else ""
        rule = ", rule" if fact and fact.field == "Rules" else ""
        day = f" ({day_of(at)}{rule})" if at else ""
        line = f"- {effort.id}{day}: {one_line('; before: '.join(texts))}"
        lines[effort.id] = cut_marked(line, limit, work.run.count)
    return lines


def learned_notes(work: Turn, names: Sequence[str], room: int) -> list[BaseMessage]:
    """Return what other sessions said against facts of this one as a note; none if erased."""
    stored = work.view.efforts_named(names, ())
    known = known_facts(work, stored)
    lines = summary_lines(work, stored, room, known)
    for name, fact in known.items():
        if name in lines and fact.lifted:
            lines[name] = f"- {name} ({day_of(fact.lifted)}): {ENDED}: {one_line(fact.text)}"
    quote = "\n".join(lines.values())
    return [work.fences.note(render("learned", quote=quote))] if quote else []


def known_facts(work: Turn, efforts: Sequence[Effort]) -> Mapping[str, Fact]:
    """Return the facts of the user, if one is among these efforts."""
    is_asked = any(is_fact(effort.id) for effort in efforts)
    return work.view.archive.facts(work.view.session.user) if is_asked else {}


def _count_concluded(work: Turn) -> int:
    """Count the concluded efforts of the session, those that the running turn concluded too."""
    total = work.view.past.efforts(0).total
    ended = [e.id for e in changes(work.efforts.events, 0) if e.status == "concluded"]
    names = {*work.efforts.open, *ended}
    if not total or not names:
        return total
    stored = {effort.id for effort in work.view.efforts_named([*names], ())}
    new = {*ended} - stored - work.efforts.open.keys()
    return max(0, total - len(stored & work.efforts.open.keys())) + len(new)

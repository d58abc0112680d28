"""The data of the inspector's page, as plain JSON: one payload for every view.

Everything is read from the archive: the turns and their events, among which is one for each call of
the model. Nothing is guessed.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ..memory.archive.branches import Branches
from ..memory.archive.protocol import Archive
from ..memory.archive.query import turns_of
from ..memory.archive.search import find
from ..memory.context.plan import Plan
from ..memory.dates import When, stamp
from ..memory.decay import counted_down
from ..memory.efforts import Efforts
from ..memory.errors import RequestError, SessionNotFoundError, ToolError, TurnNotFoundError
from ..memory.messages import calls
from ..memory.metrics import MEANINGS, Cost, Report, report
from ..memory.names import hyphenated, ranges, session_label, session_name
from ..memory.references import own_words, statements
from ..memory.running_turn import Run, Turn
from ..memory.search.embeddings import Embedder
from ..memory.search.passages import shown_excerpt
from ..memory.search.terms import indexed, query_terms, words
from ..memory.settings import Settings
from ..memory.tokens import exact
from ..memory.tools.search_efforts import meaning_of, search_efforts
from ..memory.transcript import excerpted, first_words, speaker, visible_text
from ..memory.turn import Event, Session, StoredTurn, Tip
from ..memory.view import fences_of, view_at
from ..nodes.turn.state import efforts_of
from ..nodes.turn.turn import memory_at
from . import sentences

Prices: TypeAlias = Sequence[float]
"""What a million tokens read, written and read from a cache cost; empty if that is not known."""

_PASSAGES = 100
"""Passages that the page lists for a query."""

_SAID = 80
"""Characters of what the user said in the lists of sessions and changes."""

_BRANCHES = 50
"""Branches that the page shows, those with the most turns."""

_UNSEEN = frozenset({"asked", "context", "fixed", "language", "referenced", "sent", "dated"})
"""Events that the page shows as figures and mentions, not in the list of what happened."""

_SPEAKERS = ("the user's message", "the answer")

_OF_A_CALL = ("tokens", "budget", "prefix")
"""What the page shows of a call's event; the rest renders its prompt."""


def overview(
    archive: Archive,
    session: Session,
    tip: Tip | None = None,
    settings: Settings | None = None,
    prices: Prices = (),
) -> dict[str, Any]:
    """Return what the page shows of a session: one entry a turn, one an effort, and the metrics.

    `settings` are those in force where a turn does not tell its own. Without a `tip` it is the
    newest branch. With `prices` there is money. Raises `SessionNotFoundError`.
    """
    tip = seen_from(archive, session, tip)
    commits = [*archive.load(session, tip).every_commit()]
    metrics = report(commits)
    baselines = {turn.turn: turn for turn in metrics.turns}
    talked = [stored for stored in commits if stored.status != "command"]
    now = _standing(archive, session, commits[-1], settings or Settings())
    entries, sent, full = [], 0, 0
    for earlier, stored in zip([None, *talked], talked, strict=False):
        baseline = baselines.get(stored.number)
        entry = _heading(stored, earlier, prices, baseline.full_history if baseline else 0)
        if baseline:
            entry["last_full_history"] = baseline.last_full_history
        sent, full = sent + entry.get("sent", 0), full + entry.get("full_history", 0)
        entries.append({**entry, "so_far": (sent, full)})
    calls = [call for entry in entries for call in entry["calls"]]
    usages = [event.get("usage") for stored in talked for event in _asking(stored)]
    return {
        "session": {**named(session), "turn": tip.turn, "id": tip.id},
        "figures": _figures(calls, Cost.of("", usages), prices, full),
        "turns": entries,
        "efforts": _efforts(archive, session, tip, commits, now),
        "standing": now,
        "metrics": _metrics(metrics, prices),
        "branches": branches(archive, session),
    }


def turn(  # noqa: PLR0913 (what the page asks with)
    archive: Archive,
    session: Session,
    tip: Tip | None,
    number: int,
    settings: Settings | None = None,
    *,
    prices: Prices = (),
) -> dict[str, Any]:
    """Return one turn with its texts: messages, events, and what each call sent.

    Raises `SessionNotFoundError`, `TurnNotFoundError`.
    """
    tip = seen_from(archive, session, tip)
    view = view_at(archive, session, tip)
    found = {turn.number: turn for turn in view.past.turns([number - 1, number])}
    turn = found.get(number)
    if turn is None:
        raise TurnNotFoundError(number, tip.turn)
    heading = _heading(turn, found.get(number - 1), prices)
    plans = [call["why"] for call in heading["calls"] if "why" in call]
    return {
        **heading,
        "at": turn.at,
        "happened": [
            *(("the plan", f"changed: {why}") for why in plans),
            *(sentences.happened(event) for event in turn.events if event["type"] not in _UNSEEN),
            *((name, f"counted as mentioned: {why}") for name, why in _mentions(turn)),
        ],
        "messages": [_message(message) for message in view.messages(turn)],
        "standing": _standing(archive, session, turn, settings or Settings()),
    }


def sessions(archive: Archive, users: Iterable[str]) -> list[dict[str, Any]]:
    """Return the sessions of these users, each with its newest turn and what began it."""
    found = []
    for user in users:
        for session in archive.sessions(user):
            past = archive.load(session)
            tip = past.tip
            if tip is None:
                continue
            turn = next(iter(past.turns([tip.turn])), None)
            at, messages = (turn.at, turn.messages) if turn else ("", ())
            said = first_words(messages, _SAID)
            found.append({**named(session), "turn": tip.turn, "at": at, "said": said})
    return sorted(found, key=lambda entry: str(entry["at"]), reverse=True)


def branches(archive: Archive, session: Session) -> list[dict[str, Any]]:
    """Return the end of each branch, and where it left another one; the longest has left none."""
    found: list[dict[str, Any]] = []
    known: list[tuple[Tip, Mapping[int, str]]] = []
    for end in sorted(archive.tips(session), key=lambda tip: -tip.turn)[:_BRANCHES]:
        ids = archive.load(session, end).ids(range(1, end.turn + 1))
        shared = [(_shared(ids, others), tip) for tip, others in known]
        entry: dict[str, Any] = {"turn": end.turn, "id": end.id}
        if shared:
            number, tip = max(shared, key=lambda pair: pair[0])
            entry["from"] = {"turn": number, "id": tip.id}
        found.append(entry)
        known.append((end, ids))
    return found


def _shared(ids: Mapping[int, str], others: Mapping[int, str]) -> int:
    """Return the last turn that two branches share, 0 if they share none."""
    own = (number - 1 for number in ids if others.get(number) != ids[number])
    return min(own, default=len(ids))


def as_json(data: Any) -> bytes:
    """Return data as JSON; half of a surrogate pair, which UTF-8 cannot have, becomes "?"."""
    try:
        return to_json(data)
    except PydanticSerializationError:
        plain = to_jsonable_python(data, inf_nan_mode="null")
        return encodable(json.dumps(plain, ensure_ascii=False)).encode()


def encodable(text: str) -> str:
    r"""Return a text as `as_json` writes it.

    >>> encodable("half \ud83d")
    'half ?'
    """
    return text.encode(errors="replace").decode()


def named(session: Session) -> dict[str, str]:
    """Return what tells a session from others."""
    return {
        "user": session.user,
        "name": session_name(session),
        "label": session_label(session),
        "thread": session.thread,
    }


def seen_from(archive: Archive, session: Session, tip: Tip | None) -> Tip:
    """Return the tip with its number, the newest if None; raises `SessionNotFoundError`."""
    found = archive.load(session, tip).tip
    if found is None:
        raise SessionNotFoundError(session.thread)
    return found


def _standing(
    archive: Archive, session: Session, turn: StoredTurn, settings: Settings
) -> dict[str, Any]:
    """Return the efforts in the context after a turn, by id.

    Each has its `state`, the turn in which it was `last` mentioned, and when it `leaves` that state
    if nobody mentions it, with the thresholds of the turn's last call.
    """
    used = [event["thresholds"] for event in turn.events if "thresholds" in event]
    in_force = settings.model_copy(update=used[-1] if used else {})
    efforts = counted_down(efforts_of(memory_at(archive, session, turn.tip)), in_force)
    forms = (
        ("open", efforts.open, ""),
        ("concluded", efforts.summaries, "leaves_in"),
        ("expanded", efforts.expanded, "collapses_in"),
    )
    return {
        name: {
            "state": state,
            "last": entry["last_referenced_turn"],
            "leaves": sentences.leaving(state, entry.get(left, 0)),
        }
        for state, entries, left in forms
        for name, entry in entries.items()
    }


def _heading(
    turn: StoredTurn, earlier: StoredTurn | None, prices: Prices, full: int = 0
) -> dict[str, Any]:
    """Return what the lists show of a turn; `full` is the full history in its calls."""
    calls, asking = _calls(turn, earlier), _asking(turn)
    spent = Cost.of("", (event.get("usage") for event in asking))
    return {
        "turn": turn.number,
        "status": turn.status,
        "efforts": [*turn.efforts],
        "asked": sum(event["type"] == "asked" for event in asking),
        "calls": calls,
        **_figures(calls, spent, prices, full),
    }


def _asking(turn: StoredTurn) -> list[Event]:
    """Return the events of all calls of models in a turn, those of its memory included."""
    return [event for event in turn.events if event["type"] in {"sent", "asked"}]


def _figures(
    calls: Sequence[Mapping[str, Any]], spent: Cost, prices: Prices, full: int
) -> dict[str, Any]:
    """Return what calls sent and cost: tokens, and shares of them; what is 0 is left out."""
    sent = sum(call["total"] for call in calls)
    figures = {
        "sent": sent,
        "largest": max((call["total"] for call in calls), default=0),
        "repeated": sent and sum(call.get("prefix", 0) for call in calls) / sent,
        "full_history": full,
        "saved": 1 - sent / full if full > sent else 0,
        "read": spent.read,
        "cached": spent.cached,
        "cached_share": spent.cached and spent.cached / spent.read,
        "written": spent.written,
        "money": _money(spent, prices),
    }
    return {name: figure for name, figure in figures.items() if figure}


def _money(spent: Cost, prices: Prices) -> str:
    """Return what calls cost at these prices of a million tokens, "" if that is not known."""
    known = prices and spent.calls > spent.unreported
    return f"${spent.money(*prices):,.4f}" if known else ""


def _mentions(turn: StoredTurn) -> list[tuple[str, str]]:
    """Return the efforts that a turn mentioned, each with why it counted."""
    found = [event for event in turn.events if event["type"] == "referenced"]
    if not found:
        return []
    said = [*zip(_SPEAKERS, map(own_words, statements(turn.messages)), strict=False)]
    return [
        (one["effort"], sentences.counted(one, [who for who, text in said if _has(text, one)]))
        for one in found
    ]


def _has(text: str, event: Event) -> bool:
    """Tell whether a text has all the words that made a turn mention an effort."""
    if event.get("kind") == "id":
        return all(f"-{hyphenated(name)}-" in f"-{hyphenated(text)}-" for name in event["words"])
    return event.get("kind") == "keywords" and {*event["words"]} <= {*words(text)}


def _calls(turn: StoredTurn, earlier: StoredTurn | None) -> list[dict[str, Any]]:
    """Return what each call of a turn sent, in order, with why the plan changed if it did."""
    sent = [event for event in turn.events if event["type"] == "sent"]
    before = [event for event in earlier.events if event["type"] == "sent"] if earlier else []
    calls: list[dict[str, Any]] = []
    for last, event in zip([before[-1] if before else None, *sent], sent, strict=False):
        changed = event.get("changed") or {}
        same = calls and last and changed == (last.get("changed") or {})
        is_new = not same and (calls or changed.get("after_turn") == turn.number - 1)
        call = {key: event[key] for key in _OF_A_CALL if key in event}
        call["total"] = sum(event.get("tokens", {}).values())
        if is_new and changed.get("why"):
            left = _left(last or {}, event, turn.number)
            call["why"] = sentences.replanned(changed["why"], left)
        calls.append(call)
    return calls


def _left(last: Event, event: Event, running: int) -> str:
    """Return the turns before the running one that a call showed and the next call did not."""
    before, after = Plan.unpacked(last.get("plan")), Plan.unpacked(event.get("plan"))
    if before is None or after is None:
        return ""
    shown = {*before.turns, *range(before.after_turn + 1, running)}
    return ranges(sorted(turn for turn in shown if not after.shows(turn)))


def _efforts(
    archive: Archive,
    session: Session,
    tip: Tip,
    commits: Sequence[StoredTurn],
    now: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the efforts, each with its changes of state and its uses, in order of appearance.

    `where` tells where it is now and why; `now` are those in the prompt.
    """
    known = {effort.id: effort for effort in archive.load(session, tip).every_effort()}
    found = dict[str, dict[str, Any]]()
    uses = defaultdict[str, dict[int, list[str]]](lambda: defaultdict(list))
    for turn in commits:
        mentions = dict(_mentions(turn))
        for name, why in mentions.items():
            uses[name][turn.number].append(why)
        for place, event in enumerate(turn.events):
            if event["type"] not in sentences.CHANGES:
                continue
            change = _change(turn, place)
            for name in sentences.names_of(event):
                entry = found.setdefault(name, {"id": name, "changes": []})
                entry["where"] = sentences.whereabouts(name, change, event, now.get(name))
                is_back = event["type"] == "returned" and name in mentions
                why = change["why"] + (f" ({mentions[name]})" if is_back else "")
                entry["changes"].append({**change, "why": why})
                if event["type"] in sentences.USED:
                    uses[name][turn.number].append(change["did"])
    for name, entry in found.items():
        entry["uses"] = [(n, "; ".join(dict.fromkeys(whys))) for n, whys in uses[name].items()]
        if effort := known.get(name):
            entry |= {"goal": effort.goal, "summary": effort.summary, "tokens": effort.tokens}
    return [*found.values()]


def _change(turn: StoredTurn, place: int) -> dict[str, Any]:
    """Return what an event did to an effort, and the reason or what the user said."""
    event = turn.events[place]
    # The first call that shows it is of the next turn if it came after all of this one.
    shown = max((one.get("after_events", 0) for one in turn.events), default=0)
    shown = turn.number + (place >= shown)
    said = first_words(turn.messages, _SAID)
    return {
        "turn": turn.number,
        "from": shown,
        "state": sentences.CHANGES[event["type"]][0],
        "did": sentences.did(event) + (f", from turn {shown} on" if shown > turn.number else ""),
        "why": sentences.faded(event) or (said and f"“{said}”"),
    }


def _metrics(metrics: Report, prices: Prices) -> dict[str, Any]:
    """Return the figures of a report; the turns' own stand with the turns."""
    figures = asdict(replace(metrics, turns=()))
    del figures["turns"]
    costs = [{**asdict(cost), "money": _money(cost, prices)} for cost in metrics.costs]
    return {**figures, "costs": costs, "meanings": dict(MEANINGS)}


def _message(message: BaseMessage) -> dict[str, Any]:
    asked = [{"name": call.get("name"), "args": call.get("args")} for call in calls(message)]
    blocks = message.content if isinstance(message.content, list) else []
    kinds = (block.get("type") for block in blocks if isinstance(block, Mapping))
    entry = {
        "type": message.type,
        "speaker": speaker(message),
        "text": visible_text(message),
        "calls": asked,
        "other": [str(kind) for kind in kinds if kind != "text"],
    }
    return {key: value for key, value in entry.items() if value or key == "text"}


def search(  # noqa: PLR0913, PLR0917 (what the tool searches with)
    archive: Archive,
    session: Session,
    tip: Tip | None,
    query: str,
    settings: Settings,
    embedder: Embedder | None,
) -> dict[str, Any]:
    """Return the passages that match a query, best first, with their scores.

    `shown` marks those that the tool `search_efforts` gives a model with an empty context. The
    other fields of its result are in the answer too. Raises `SessionNotFoundError`, and
    `RequestError` for a query that the tool refuses.
    """
    tip = seen_from(archive, session, tip)
    view, budget = view_at(archive, session, tip), settings.context_budget
    run = Run(settings, exact, fences_of(archive, session, exact), embedder=embedder)
    efforts = Efforts(tip.turn, None, {}, {}, {})
    work = Turn(run, view, efforts, room=budget, free=budget, now=stamp())
    try:
        given = search_efforts(work, query)[1]
    except ToolError as error:
        raise RequestError(str(error)) from error
    terms = query_terms(query)
    when = When(work.now, settings.timezone, language=settings.language)
    meaning = meaning_of(work, query)
    found = find(Branches(view.past, session), query, _PASSAGES, meaning, when=when)
    turns = turns_of(view.past, found)
    passages = [
        (one.get("session", ""), passage) for one in given["results"] for passage in one["passages"]
    ]
    results = []
    for hit in (one for one in found if not one.newest_with):
        text = ""  # if only a heading matches
        if hit.passage is not None:
            said = turns[hit.branch, hit.turn].messages
            part = shown_excerpt(said, hit.passage, terms)
            text = excerpted(said, part.begin, part.end)
        name = session_name(hit.branch.session) if hit.branch else ""
        entry: dict[str, Any] = {"score": hit.score, "turn": hit.turn, "effort": hit.effort}
        # The model is given longer ones too, that join neighbours, without the speaker before them.
        shown = [
            passage
            for at, passage in passages
            if text and (at, passage["turn"]) == (name, hit.turn)
            if passage["text"] in text or text in passage["text"]
        ]
        newest = [word for passage in shown for word in passage.get("newest_with", ())]
        entry |= {"session": name, "shown": bool(shown), "newest_with": newest}
        entry["weak"] = hit.weak or hit.alike
        results.append({**entry, "pieces": _marked(text, terms)})
    return {**given, "results": results, "meaning": meaning is not None}


def _marked(text: str, terms: Sequence[str]) -> list[str]:
    """Return a text in pieces, of which each second one says terms of a query.

    >>> _marked("Both tokens expired.", ["token", "expir"])
    ['Both ', 'tokens', ' ', 'expired', '.']
    """
    pieces, wanted = [""], {*terms}
    for part in re.split(r"(\w+)", text):
        if wanted.isdisjoint(indexed(part)) == len(pieces) % 2:
            pieces[-1] += part
        else:
            pieces.append(part)
    return pieces


def whole(
    archive: Archive,
    session: Session,
    tip: Tip | None,
    turns: Sequence[int],
    prices: Prices = (),
) -> dict[str, Any]:
    """Return the payload of one file: a session with these turns, texts included.

    Raises `SessionNotFoundError`, `TurnNotFoundError`.
    """
    shown = overview(archive, session, tip, prices=prices)
    kept = [entry for entry in shown["turns"] if entry["turn"] in {*turns}]
    seen = seen_from(archive, session, tip)
    details = {number: turn(archive, session, seen, number, prices=prices) for number in turns}
    return {**shown, "turns": kept, "details": details}

"""The ten invariants, each for conversations that are drawn at random.

Page 00, "The invariants".
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ebbtide import Settings
from tests.acceptance.rules import tokens
from tests.acceptance.stage import (
    AUTH,
    EXACT,
    WORKS,
    Said,
    Stage,
    ambient,
    log_in,
    recalled,
    stage,
    summaries_in,
)
from tests.doubles import Scripted, Sent, call, together
from tests.draws import examples
from tests.faults.disks import FullDisk
from tests.test_complaints import orphans

SAID = st.builds(
    lambda words, times: " ".join(words * times),
    st.lists(
        st.sampled_from(["the port is 8080", "数据库 连接", "🙂 👩‍👩‍👧", "12:30", "x\n\ty"]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1, 1, 3, 30, 300]),
)
NAMES = st.sampled_from("abc")
STEP = st.one_of(
    st.builds(
        lambda texts: together(*(call("look_up", what=text) for text in texts)),
        st.lists(SAID, min_size=1, max_size=5),
    ),
    *(
        st.builds(lambda name, tool=tool, as_=as_: call(tool, **{as_: name}), NAMES)
        for tool, as_ in (
            ("open_effort", "name"),
            ("reopen_effort", "effort_id"),
            ("switch_effort", "effort_id"),
            ("expand_effort", "effort_id"),
        )
    ),
    st.just(call("close_effort")),
    st.builds(lambda turn: call("read_log", turns=str(turn)), st.integers(1, 5)),
)
TALK = st.lists(st.tuples(SAID, st.lists(STEP, max_size=3), SAID), min_size=1, max_size=5)
"""Turns: what the user says, what the model does, its answer."""

SMALL = Settings(context_budget=4_000)
FEW = settings(max_examples=examples(4), phases=[Phase.generate])
"""The first example that fails is told as it was drawn: to make it smaller takes minutes."""


def look_up(what: str) -> str:
    """Look something up."""
    return f"Found: {what}"


def talked(root: str, turns: Sequence[Any], **options: Any) -> Stage:
    """Go through turns."""
    here = stage(Path(root), tools=[look_up], **options)
    for said, steps, answer in turns:
        here.say(said, *steps, answer)
    return here


def size(sent: Sent) -> int:
    """Count the tokens of texts and calls, overhead and schemas aside."""
    calls = [one["args"] for m in sent.messages for one in getattr(m, "tool_calls", ())]
    return tokens(sent.text) + sum(tokens(" ".join(map(str, one.values()))) for one in calls)


def as_bytes(sent: Sent) -> list[str]:
    """Return the messages as they are sent."""
    return [
        json.dumps([m.type, m.name, m.content, getattr(m, "tool_calls", None)])
        for m in sent.messages
    ]


@FEW
@given(turns=TALK)
def test_bounded(turns: Sequence[Any]) -> None:
    """Invariant 1: the working context never exceeds `context_budget`."""
    with TemporaryDirectory() as root:
        here = talked(root, turns, settings=SMALL)

        assert max(map(size, here.talk.model.sent)) <= 4_000
        assert here.values["memory"]["context_report"]["total"] <= 4_000


@FEW
@given(turns=TALK)
def test_lossless(turns: Sequence[Any]) -> None:
    """Invariant 2: every message accepted can be read back byte for byte."""
    with TemporaryDirectory() as root:
        here = talked(root, turns, settings=SMALL)

        read = here.read()

    looked_up = [
        f"Found: {one['args']['what']}"
        for _, steps, _ in turns
        for step in steps
        for one in step.tool_calls
        if one["name"] == "look_up"
    ]
    assert [m.text for m in read if m.type == "human"] == [said for said, _, _ in turns]
    assert [m.text for m in read if m.type == "tool"] == looked_up
    answers = [m.text for m in read if m.type == "ai" and not getattr(m, "tool_calls", None)]
    assert answers == [answer for _, _, answer in turns]


@FEW
@given(failing=st.lists(st.sampled_from(["answered", "resumed", "left"]), min_size=1, max_size=6))
def test_exactly_once(failing: Sequence[str]) -> None:
    """Invariant 3: each turn stands exactly once, whatever failed, was resumed or left."""
    with TemporaryDirectory() as root:
        here = stage(Path(root))
        for number, how in enumerate(failing):
            answers: list[Scripted] = [ConnectionError("gone")] * (how != "answered")
            with suppress(ConnectionError):
                here.say(ambient(number), *answers)
            if how == "resumed":
                here.talk.model.answers = [*["…"] * len(here.talk.model.sent), "Resumed."]
                here.talk.agent.invoke(None, here.config)
        here.say("That was all.")

        asked = here.asked()

    assert asked == [*map(ambient, range(len(failing))), "That was all."]


@FEW
@given(starts=st.lists(st.integers(0, 20), min_size=2, max_size=6))
def test_fork_safe(starts: Sequence[int]) -> None:
    """Invariant 4: a branch sees its own past and nothing from its siblings."""
    with TemporaryDirectory() as root:
        here = stage(Path(root))
        here.chat(2)
        tips = [(here.talk.agent.get_state(here.config).config, here.asked())]
        for number, start in enumerate(starts):
            config, past = tips[start % len(tips)]
            here.say(f"On branch {number}.", config=config)
            newest = here.talk.agent.get_state(here.config).config
            tips.append((newest, [*past, f"On branch {number}."]))

        found = [here.asked(config) for config, _ in tips]

    assert found == [past for _, past in tips]


@FEW
@given(turns=TALK)
def test_well_formed(turns: Sequence[Any]) -> None:
    """Invariant 5: every tool call is followed by its result and no result stands alone."""
    with TemporaryDirectory() as root:
        here = talked(root, turns, settings=SMALL)

        assert [orphans(sent.messages) for sent in here.talk.model.sent] == [0] * len(
            here.talk.model.sent
        )


def lived(root: Path, turns: int) -> tuple[list[int], list[int]]:
    """Return the tokens of the context, and the bytes of the state, turn by turn."""
    here, serializer = stage(root), JsonPlusSerializer()
    totals, sizes = [], []
    for number in range(turns):
        said = here.say(f"{ambient(number)} It costs {number} crowns.", durability="exit")
        totals.append(said.memory["context_report"]["total"])
        sizes.append(len(serializer.dumps_typed(here.values)[1]))
    return totals, sizes


def test_flat(tmp_path: Path) -> None:
    """Invariant 6: the cost of a turn does not depend on how long the session has run."""
    totals, sizes = lived(tmp_path, 60)

    assert max(totals[40:]) <= 1.03 * max(totals[20:40])
    assert max(sizes[40:]) <= 1.03 * max(sizes[20:40])


@FEW
@given(said=st.lists(st.text("abc def", min_size=1, max_size=60), min_size=2, max_size=9))
def test_prefix_stable(said: Sequence[str]) -> None:
    """Invariant 7: between two changes of the plan each prompt is a prefix of the next one's."""
    with TemporaryDirectory() as root:
        here = stage(Path(root), tools=[look_up])
        for words in said:
            here.say(words, call("look_up", what=words), "Done.")

        sent = [as_bytes(one) for one in here.talk.model.sent]

    assert [after[: len(before)] for before, after in pairwise(sent)] == sent[:-1]


def test_changes_say_why(tmp_path: Path) -> None:
    """Invariant 7: each change of the plan says in `context_report` why it happened."""
    here = stage(tmp_path)
    said = here.work(AUTH)
    before = here.talk.model.sent[-1]
    after = here.chat(1)[0]

    changed = after.memory["context_report"].get("changed")

    assert as_bytes(after.first)[: len(before.messages)] != as_bytes(before)
    assert changed is not None
    assert changed["after_turn"] == said.memory["turn"]
    assert changed["why"]


def uncounted(value: Any) -> Any:
    """Return a part of the memory without turns, which each one counts down or moves."""
    if not isinstance(value, dict):
        return value
    return {key: uncounted(one) for key, one in value.items() if not key.endswith(("_in", "_turn"))}


def break_down(what: str) -> str:
    """Break down."""
    raise LookupError(what)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("said", "kind"),
    [
        *((error("gone"), error) for error in (ConnectionError, ValueError, TimeoutError)),
        (call("break_down", what="the lamp"), LookupError),
    ],
)
def test_failed_model_or_tool_changes_nothing(
    tmp_path: Path, said: Any, kind: type[Exception]
) -> None:
    """Invariant 8: what fails ends the run, memory stays as it was, and the next turn works."""
    here = stage(tmp_path, tools=[break_down])
    here.work(AUTH)
    kept = ("active_effort", "open_efforts", "expanded", "summaries", "anchor")
    before = {name: uncounted(here.values["memory"].get(name)) for name in kept}

    with pytest.raises(kind):
        here.say("Hello.", said)
    following = here.say("And now?")

    assert {name: uncounted(following.memory.get(name)) for name in kept} == before
    assert here.asked()[-2:] == ["Hello.", "And now?"]
    assert "the lamp" not in str([m for m in following.sent.messages if m.type == "tool"])


def test_failed_archive_raises(tmp_path: Path) -> None:
    """Invariant 8: a failed archive raises after retries, and the next run commits first."""
    archive = FullDisk(tmp_path, durable=False)
    here = stage(tmp_path, archive=archive, checkpointer=InMemorySaver())
    here.chat(1)
    archive.failures = 3

    with pytest.raises(OSError, match="No space"):
        here.say("Hello.")
    here.say("And now?")

    assert here.asked() == [ambient(1), "Hello.", "And now?"]


DOING = st.lists(
    st.tuples(
        st.sampled_from(["expand_effort", "collapse_effort", "reopen_effort", "close_effort", ""]),
        st.sampled_from([work.name for work in WORKS[:3]]),
    ),
    min_size=1,
    max_size=8,
)


def done(root: str, doing: Sequence[tuple[str, str]], chosen: Settings) -> list[Said]:
    """Do something with three concluded efforts in each turn; say nothing in every third one."""
    here = stage(Path(root), settings=chosen)
    here.works(*WORKS[:3])
    said = here.chat(2)
    for tool, name in doing:
        said += [here.use(tool, effort_id=name)] if tool else here.chat(1)
    return [*said[1:], *here.chat(1)]


def untrue(said: Sequence[Said]) -> list[str]:
    """Return where what was sent first in a turn is not what the state said before it."""
    pairs = [*pairwise(said)]
    logs = [
        f"{work.name} expanded: {work.name in before.memory['expanded']}"
        for before, after in pairs
        for work in WORKS[:3]
        if work.name not in before.memory["open_efforts"]
        and log_in(after.first, work) != (work.name in before.memory["expanded"])
    ]
    summaries = [
        f"summaries: {[*before.memory['summaries']]}"
        for before, after in pairs
        if summaries_in(after.first) != {*before.memory["summaries"]}
    ]
    return logs + summaries


@FEW
@given(doing=DOING)
def test_one_truth_every_turn(doing: Sequence[tuple[str, str]]) -> None:
    """Invariant 9, with `rebuild="every-turn"`: what the state says is what the model is sent."""
    with TemporaryDirectory() as root:
        assert untrue(done(root, doing, EXACT)) == []


@FEW
@given(doing=DOING)
def test_one_truth(doing: Sequence[tuple[str, str]]) -> None:
    """Invariant 9: what the state says is what the model is sent, and nothing stands twice."""
    with TemporaryDirectory() as root:
        assert untrue(done(root, doing, Settings())) == []


@FEW
@given(said=st.sampled_from(["word ", "数据库", "🙂 ", "a\nb\n"]), times=st.integers(5_000, 20_000))
def test_nothing_disappears_silently(said: str, times: int) -> None:
    """Invariant 10: what cannot be shown is named, with the call that brings it back."""
    with TemporaryDirectory() as root:
        here = stage(Path(root), settings=SMALL, tools=[look_up])

        last = here.say("Look it up.", call("look_up", what=said * times), "Done.")

        assert "read_log(" in last.sent.text


def test_what_left_is_named(tmp_path: Path) -> None:
    """Invariant 10: turns out of view are named, and the search is."""
    here = stage(tmp_path, settings=EXACT)
    here.chat(30)

    assert "read_log" in recalled(here.chat(1)[0].sent)

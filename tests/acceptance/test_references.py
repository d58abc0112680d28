"""What counts as a mention of an effort.

Page 02, "References"; the source is slice 3, "What Counts as a 'Reference'?".
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings
from tests.acceptance.stage import AUTH, EXACT, PERF, Said, Stage, stage
from tests.doubles import call

MAIL = (
    "Good morning, since the update on Tuesday our colleagues in the warehouse complain that the "
    "scanner app shows them the start page every hour or so, and on the tablets they have to type "
    "their password with gloves on. Is that related to the refresh tokens and the 401 you told us "
    "about? Otherwise all is well, the new labels print nicely and the drivers like the map."
)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Return a talk in which two efforts are concluded, one of them expanded, two turns ago.

    Whatever is said then begins a branch of its own.
    """
    here = stage(tmp_path_factory.mktemp("watched"))
    here.work(AUTH)
    here.work(PERF)
    here.use("expand_effort", effort_id="auth-bug")
    here.chat(1)
    return replace(here, config=here.after(8))


def mentioned(said: Said) -> bool:
    """Tell whether the expanded effort was referenced in this turn."""
    return said.silent_for["auth-bug"] == 0


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("What about auth-bug?", "Well."),
        ("What about the auth bug?", "Well."),
        ("AUTH BUG!", "Well."),
        ("And?", "As in auth-bug."),
    ],
)
def test_id_counts(watched: Stage, said: str, answer: str) -> None:
    """02, first point: the id as whole words, in the message or in the final answer."""
    assert mentioned(watched.say(said, answer))


@pytest.mark.parametrize("said", ["The capital is rapidly growing.", "apis and apiaries"])
def test_id_is_whole_words(tmp_path: Path, said: str) -> None:
    """02, first point: id `api` does not match *capital* or *rapid*."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="api"), "Opened.")
    here.use("close_effort")
    here.use("expand_effort", effort_id="api")

    assert here.say(said, "Well.").silent_for == {"api": 1}


def test_id_with_accents(tmp_path: Path) -> None:
    """02, first point: accents are folded (`cafe menu` is `café-menu`)."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="Café menu"), "Opened.")
    here.use("close_effort")
    here.use("expand_effort", effort_id="café-menu")

    assert here.say("The cafe menu, please.").silent_for == {"café-menu": 0}


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Was it the axios interceptor?", "Yes."),
        ("Were REFRESH tokens never called?", "Yes."),
        ("Does the token refresh work?", "Yes."),
        ("And?", "The interceptor refreshes the token."),
    ],
)
def test_two_keywords_count(watched: Stage, said: str, answer: str) -> None:
    """02, second point: two keywords, normalised, in the message or in the answer."""
    assert mentioned(watched.say(said, answer))


@pytest.mark.parametrize(
    "said",
    ["What is a token?", "Is the weather fine in Rome?", "Continue.", "It is about to be there."],
)
def test_less_does_not_count(watched: Stage, said: str) -> None:
    """02, second point: one keyword, stop words or stop phrases are no mention."""
    assert not mentioned(watched.say(said, "Well."))


@pytest.mark.parametrize(
    "answer",
    [call("expand_effort", effort_id="auth-bug"), call("expand_effort", effort_id="Auth Bug")],
)
def test_call_that_names_it_counts(watched: Stage, answer: Any) -> None:
    """02, third point: a tool call that names it."""
    assert mentioned(watched.say("Hm.", answer, "Done."))


def test_being_listed_does_not_count(watched: Stage) -> None:
    """02, third point: being listed by `effort_status` without an id is no mention."""
    assert not mentioned(watched.use("effort_status"))


def test_search_that_is_not_used_does_not_count(watched: Stage) -> None:
    """02, third point: a search that led nowhere is no mention."""
    assert not mentioned(watched.use("search_efforts", query="axios interceptor"))


def test_search_whose_result_is_named_counts(watched: Stage) -> None:
    """02, third point: a search that finds it, and its id stands in the answer."""
    search = call("search_efforts", query="axios interceptor")

    assert mentioned(watched.say("Hm.", search, "See auth-bug."))


def found_before_eviction(root: Path, answer: str) -> Said:
    """Search for an effort in the turn in which it would be evicted, and answer."""
    settings = EXACT.model_copy(update={"summary_eviction_threshold": 4, "recall_hints": 0})
    told = {"summary": "The listener has port 8443; its certificate was rotated.", "keywords": []}
    here = stage(root, settings=settings, structured=[told])
    here.say(AUTH.log, call("open_effort", name="night-shift"), "Opened.")
    here.use("close_effort")
    here.chat(3)
    return here.say("Which one was it?", call("search_efforts", query="certificate"), answer)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("It was night-shift.", {"night-shift"}),
        ("It was port 8443.", {"night-shift"}),
        ("It was 8443.", {"night-shift"}),
        ("I do not know.", set()),
    ],
)
def test_search_keeps_what_was_used(tmp_path: Path, answer: str, kept: set[str]) -> None:
    """02, third point: it counts in the turn that finds it, if the answer repeats what it found."""
    assert {*found_before_eviction(tmp_path, answer).memory["summaries"]} == kept


def test_concluding_counts(tmp_path: Path) -> None:
    """02, fourth point; slice 4: grace for what was just concluded."""
    here = stage(tmp_path, settings=Settings(summary_eviction_threshold=1, rebuild="every-turn"))

    concluded = here.work(AUTH)
    following = here.chat(1)[0]

    assert [*concluded.memory["summaries"]] == ["auth-bug"]
    assert following.memory["summaries"] == {}


def test_references_have_their_reason(watched: Stage) -> None:
    """00, State: which effort was mentioned in this turn, of which kind, by which words."""
    said = watched.say("Was it the axios interceptor?", "Yes.")

    (reference,) = said.memory.get("references", [{}])
    assert (reference.get("effort"), reference.get("kind")) == ("auth-bug", "keywords")
    assert {*reference["words"]} == {"axios", "interceptor"}


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ("How is the nightly deploy of staging?", False),
        ("How is the nightly deploy of the cookie gateway?", True),
    ],
)
def test_only_distinctive_keywords_count(tmp_path: Path, said: str, *, counts: bool) -> None:
    """02, Distinctive: words that most efforts have are no mention, whatever their number."""
    here = stage(tmp_path)
    for name, part in (("auth-bug", "cookie gateway"), ("backup", "volume"), ("mail", "queue")):
        here.say("Let us begin.", call("open_effort", name=name), "Opened.")
        here.say(f"The nightly deploy of staging fails at the {part}.")
        here.use("close_effort")
    here.use("expand_effort", effort_id="auth-bug")

    assert mentioned(here.say(said)) == counts


def test_mention_in_a_long_message(watched: Stage) -> None:
    """02, Distinctive: the share is of the best passage, a sentence or two, not of the message."""
    assert mentioned(watched.say(MAIL, "I see."))


def test_terse_answers_do_not_count(tmp_path: Path) -> None:
    """02, Distinctive: words that only the assistant said in the log make no mention."""
    here = stage(tmp_path)
    here.say("Let us begin.", call("open_effort", name="auth-bug"), "Opened.")
    here.say(AUTH.log, "Done. The tests pass.")
    here.say("That was all.", call("close_effort"), "Closed.")
    here.use("expand_effort", effort_id="auth-bug")

    last = [here.say(f"Now step {n}.", "Done. The tests pass.") for n in range(3)][-1]

    assert last.memory["expanded"] == {}


def test_overlap_is_a_setting() -> None:
    """02, second point; slice 3, Configuration: `min_keyword_overlap`, by default 2."""
    field = Settings.model_fields.get("min_keyword_overlap")

    assert field is not None
    assert field.default == 2

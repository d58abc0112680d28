"""Nudges: one line, once, for talk that looks like work and for an effort that is left open."""

import weakref
from collections.abc import Sequence

import pytest

from ebbtide.memory.chatter import telling
from ebbtide.memory.messages import text
from ebbtide.memory.nudges import Talk, heard, nudge, topic
from tests.memory.desks import OWNER, Conversation, call

LOGIN = (
    ("Our login answers 401 after an hour.", "Does the login renew its token?"),
    ("The login has a refresh token.", "So call the refresh endpoint of the login."),
    ("Nothing calls the refresh endpoint.", "Then let the login send its refresh token."),
    ("Should I repeat the login then?", "No: a refresh token makes the login go on."),
)
LOGIN_ZH = (
    ("登录页面返回401，为什么？", "访问令牌可能已经过期，没有刷新。"),
    ("令牌保存在本地，还有一个刷新令牌。", "那么令牌过期时应该调用刷新接口。"),
    ("哪里调用刷新接口？", "用刷新令牌调用刷新接口。"),
    ("刷新之后重新发送请求吗？", "刷新令牌之后重新发送。"),
)
MIXED = (
    ("What is the capital of Australia?", "Canberra. Any other questions?"),
    ("How many ounces are in a cup?", "Eight. Any other questions?"),
    ("Tell me a joke about scarecrows.", "He is outstanding. Any other questions?"),
    ("Who wrote Dune?", "Frank Herbert. Any other questions?"),
)
HELP = tuple(
    (f"Can you help me with a question about {what}?", f"Happy to help with the question: {what}.")
    for what in ("rice", "tickets", "dogs", "taxes")
)
HELP_ZH = (
    ("请帮我写一句生日祝福。", "好的，这是一句生日祝福。"),
    ("请帮我写一条请假短信。", "好的，这是一条请假短信。"),
    ("请帮我翻译早上好。", "好的，翻译在这里。"),
    ("请帮我推荐一本书。", "好的，我推荐三体。"),
)
BLOCK = """

---STATE---
Goal: a quiz about Australia, ounces, scarecrows and Dune
---END STATE---"""
SMALL = tuple((said, "You are welcome.") for said in ("ok", "go on", "thanks", "yes"))
NEXT = "What if the refresh token of the login is gone?"
OWN_WORK = "[Memory: the last 4 turns keep to one topic"
STILL_OPEN = '[Memory: the effort "css" is still open, and the last 3 turns'


def held(talk: Conversation, turns: Sequence[tuple[str, str]]) -> None:
    """Go through turns of these questions and answers."""
    for question, answer in turns:
        talk.turn(question, answer=answer)


def nudged(talk: Conversation, question: str) -> str:
    """Return the nudge beside this question."""
    talk.ask(question)
    return nudge(talk.desk)


def shown(talk: Conversation, questions: Sequence[str]) -> list[bool]:
    """Go through turns, and return in which of them there was a nudge."""
    found = []
    for question in questions:
        found.append(bool(nudged(talk, question)))
        talk.answer()
    return found


@pytest.mark.parametrize(
    ("turns", "question"),
    [(LOGIN, NEXT), (LOGIN, "And the login?"), (LOGIN_ZH, "如果刷新令牌也过期了呢？")],
)
def test_talk_that_keeps_to_one_topic_is_nudged(
    talk: Conversation, turns: Sequence[tuple[str, str]], question: str
) -> None:
    """After four turns on one topic, a question that goes on with it is given the line."""
    held(talk, turns)

    assert nudged(talk, question).startswith(OWN_WORK)


@pytest.mark.parametrize(
    ("turns", "question"),
    [
        (MIXED, "Who wrote Emma?"),
        (HELP, "Can you help me with a question about the moon?"),
        (HELP_ZH, "请帮我算一下。"),
        (SMALL, "ok, go on"),
        (LOGIN[:3], NEXT),
        (LOGIN, "thanks"),
        (LOGIN, "ok, go on"),
        (LOGIN, ""),
        (LOGIN, "What is the capital of Australia?"),
        ((*LOGIN[:2], MIXED[0], *LOGIN[2:]), NEXT),
    ],
)
def test_other_talk_is_not_nudged(
    talk: Conversation, turns: Sequence[tuple[str, str]], question: str
) -> None:
    """Different topics, small talk, too few turns, and a message that goes elsewhere have none."""
    held(talk, turns)

    assert nudged(talk, question) == ""


def test_a_state_block_is_no_topic(talk: Conversation) -> None:
    """What the model repeats in its block, and nobody sees, joins no turns."""
    held(talk, [(question, answer + BLOCK) for question, answer in MIXED])

    assert nudged(talk, "Who wrote the sequel of Dune?") == ""


def test_a_topic_is_nudged_once(talk: Conversation) -> None:
    """However long the talk keeps to its topic, the line stands in the fifth turn only."""
    questions = [f"How does the login renew the refresh token {n}?" for n in range(15)]

    assert shown(talk, questions) == [at == 4 for at in range(15)]


def test_another_topic_is_nudged_again(talk: Conversation) -> None:
    """The situation has changed once four turns keep to something else."""
    login = ["How does the login renew its token?"] * 6
    bread = ["How warm does the dough of the sourdough stand?"] * 6

    found = shown(talk, [*login, *bread])

    assert [at for at, there in enumerate(found) if there] == [4, 10]


def test_what_is_said_anyway_is_no_topic() -> None:
    """Words that most of the turns before the run have too tell nothing."""
    said = frozenset({"acme", "shop"})
    run = [Talk(said, said | {other}) for other in ("login", "bread", "moon", "train")]

    assert topic(run, []) == said
    assert topic(run, [Talk(said, said)] * 2) == frozenset()


@pytest.mark.parametrize("said", ["thanks", "ok, go on", "Great idea!", "谢谢", "继续", "好的"])
def test_small_talk_tells_nothing(said: str) -> None:
    """What every talk has does not count as a topic."""
    assert telling(said) == frozenset()


def test_turns_of_an_effort_are_no_run(talk: Conversation) -> None:
    """Turns that belong to an effort are named already."""
    talk.turn("The login.", call("open_effort", name="auth"))
    held(talk, LOGIN[:2])
    talk.turn("Close the login.", call("close_effort"))
    held(talk, LOGIN[2:])

    assert nudged(talk, NEXT) == ""


@pytest.mark.parametrize("tool", ["effort_status", "search_efforts"])
def test_a_nudge_stands_in_every_call_of_its_turn(talk: Conversation, tool: str) -> None:
    """After a tool that decides nothing the line is the same."""
    held(talk, LOGIN)
    before = nudged(talk, NEXT)

    talk.call(tool, **({"query": "login"} if tool == "search_efforts" else {}))

    assert nudge(talk.desk) == before != ""


def test_a_nudge_that_was_followed_is_gone(talk: Conversation) -> None:
    """Once the model has opened an effort, nothing more is said, then or in the next turn."""
    held(talk, LOGIN)
    talk.ask(NEXT)

    talk.call("open_effort", name="auth")

    assert nudge(talk.desk) == ""
    talk.answer()
    assert nudged(talk, NEXT) == ""


def left_open(talk: Conversation, turns: int = 3) -> None:
    """Open an effort, and go through turns that do not mention it."""
    talk.turn("The sidebar overlaps the footer.", call("open_effort", name="css"))
    held(talk, (MIXED * 5)[:turns])


def test_an_effort_that_is_left_open_is_nudged_once(talk: Conversation) -> None:
    """The line stands after three turns without a reference, and in that turn only."""
    left_open(talk, 0)

    found = shown(talk, [question for question, _ in (*MIXED, *MIXED)])

    assert found == [at == 3 for at in range(8)]


@pytest.mark.parametrize(
    ("small", "there"),
    [(["thanks"], True), (["ok", "go on", ""], True), (["ok"] * 10, True), (["ok"] * 11, False)],
)
def test_small_talk_puts_the_nudge_off(
    talk: Conversation, small: Sequence[str], *, there: bool
) -> None:
    """It waits for a message with a topic, ten turns at most, and stands in that turn only."""
    left_open(talk)

    found = shown(talk, [*small, "Who wrote Emma?", "How old is Rome?", "thanks", "Name a river!"])

    assert found == [*[False] * len(small), there, False, False, False]


def test_small_talk_brings_no_nudge_back(talk: Conversation) -> None:
    """However much of it comes after the turn with the nudge, it is not said again."""
    left_open(talk)

    found = shown(talk, ["Who wrote Emma?", *["ok"] * 12, "How old is Rome?", "Name a river!"])

    assert [at for at, there in enumerate(found) if there] == [0]


def test_an_erased_turn_may_have_had_the_nudge(talk: Conversation) -> None:
    """Where the text of a turn is gone, the nudge counts as said in it."""
    left_open(talk)
    found = shown(talk, ["Who wrote Emma?"])
    talk.archive.erase(OWNER, talk.tip, talk.tip.turn)

    found += shown(talk, ["How old is Rome?"])

    assert found == [True, False]


def test_an_effort_that_is_left_open_is_named(talk: Conversation) -> None:
    """The line names the effort and says what can be done."""
    left_open(talk)

    said = nudged(talk, "Who wrote Emma?")

    assert said.startswith(STILL_OPEN)
    assert "switch_effort" in said
    assert "close_effort" in said


@pytest.mark.parametrize(
    "question", ["And the CSS?", "Why does the sidebar overlap it?", "thanks", "go on", "继续"]
)
def test_who_returns_to_an_effort_needs_no_nudge(talk: Conversation, question: str) -> None:
    """A message that mentions the effort, or says nothing of a topic, has none."""
    left_open(talk)

    assert nudged(talk, question) == ""


def test_a_reference_puts_the_nudge_off(talk: Conversation) -> None:
    """The turns are counted from the last mention."""
    left_open(talk, 2)
    talk.turn("The CSS is odd.")

    found = shown(talk, ["Who wrote Emma?", "How old is Rome?", "Name a river!", "And a lake?"])

    assert found == [False, False, False, True]


@pytest.mark.parametrize(
    "decision",
    [
        call("switch_effort", effort_id="auth"),
        call("open_effort", name="api"),
        call("close_effort"),
    ],
)
def test_a_decision_ends_the_nudge(talk: Conversation, decision: dict[str, object]) -> None:
    """Whatever becomes active in the turn, it has just been decided."""
    talk.turn("The certificates.", call("open_effort", name="auth"))
    left_open(talk)
    before = nudged(talk, "Who wrote Emma?")

    talk.run(decision)

    assert before.startswith(STILL_OPEN)
    assert nudge(talk.desk) == ""


def test_an_effort_that_became_active_again_has_its_time(talk: Conversation) -> None:
    """The turns in which another effort was active do not count."""
    left_open(talk, 0)
    talk.turn("The certificates.", call("open_effort", name="auth"))
    held(talk, MIXED)
    talk.turn("That was it.", call("close_effort"))

    found = shown(talk, [question for question, _ in (*MIXED, *MIXED)])

    assert found == [at == 3 for at in range(8)]


@pytest.mark.parametrize("chosen", [{"nudge_after": 3}, {"nudge_after": 2}])
def test_the_length_of_a_run_is_a_setting(talk: Conversation, chosen: dict[str, int]) -> None:
    """After `nudge_after` turns, as the line says."""
    talk.set(**chosen)
    held(talk, LOGIN[: chosen["nudge_after"]])

    assert f"the last {chosen['nudge_after']} turns" in nudged(talk, NEXT)


@pytest.mark.parametrize("turns", [LOGIN, ()])
def test_nudges_can_be_switched_off(talk: Conversation, turns: Sequence[tuple[str, str]]) -> None:
    """With `nudges=False` neither of the two is said."""
    talk.set(nudges=False)
    held(talk, turns)
    beside_own = nudged(talk, NEXT)
    talk.answer()
    left_open(talk)

    assert beside_own == nudged(talk, "Who wrote Emma?") == ""


def test_a_nudge_is_the_last_of_the_notes(talk: Conversation) -> None:
    """It stands right before the user's message, the same each time."""
    held(talk, LOGIN)
    talk.ask(NEXT)
    tiers = {tier.name: tier for tier in talk.context.tiers}

    assert [text(note) for note in tiers["notes"].messages] == [nudge(talk.desk)]
    assert talk.context == talk.context


def test_a_nudge_is_no_reference(talk: Conversation) -> None:
    """What a nudge names is not mentioned by it, and it is not in the record of its turn."""
    left_open(talk)
    nudged(talk, "Who wrote Emma?")

    record = talk.answer("Jane Austen.")

    assert [event["type"] for event in record.events] == []
    assert [text(message) for message in record.messages] == ["Who wrote Emma?", "Jane Austen."]


def test_a_huge_message_is_read_in_part(talk: Conversation) -> None:
    """Of a long paste only the beginning is looked at."""
    held(talk, LOGIN)

    assert nudged(talk, "and " * 100_000 + NEXT) == ""


class Said(str):
    """A text that can be watched until it is gone."""

    __slots__ = ("__weakref__",)


def test_no_text_is_held() -> None:
    """What was looked at is gone with the last who holds it, long or short, erased or not."""
    texts = [Said("The login has a refresh token. " * times) for times in (1, 1_000)]
    watched = [weakref.ref(one) for one in texts]
    heard(*texts)

    texts.clear()

    assert [one() for one in watched] == [None, None]


def test_a_long_past_changes_nothing(talk: Conversation) -> None:
    """Only the last turns are looked at."""
    held(talk, (*MIXED * 6, *LOGIN))

    assert nudged(talk, NEXT).startswith(OWN_WORK)

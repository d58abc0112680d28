"""A turn with several pieces of work: each effort has its own rounds, wherever its log is read."""

import json
import re
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from ebbtide import Settings
from ebbtide.memory.archive.export import export_folder
from ebbtide.memory.spans import kept
from ebbtide.memory.turn import Session
from tests.agents import THREAD, Talk, talk
from tests.doubles import ScriptedModel, call
from tests.memory.conversations import words_of

SESSION = Session("", "t")
REQUEST = "Mend the ledger, then the gateway."
LEDGER, BETWEEN, GATEWAY = "the keeper is Ahab", "a zebra went by", "the master is Ishmael"


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: " + "as everybody knows " * 12


def working(root: Path, *last: Any, **options: Any) -> Talk:
    """Return an agent that did both in one turn, and something between them."""
    script = [
        *(call("open_effort", name="ledger"), call("look", what=LEDGER), call("close_effort")),
        call("look", what=BETWEEN),
        *(call("open_effort", name="gateway"), call("look", what=GATEWAY), *last),
    ]
    options = {"settings": Settings(context_budget=8_000), "tools": [look], **options}
    chat = talk(root, [*script, "Done."], **options)
    chat.say(REQUEST)
    return chat


def said(chat: Talk, words: str, *answers: Any) -> tuple[dict[str, Any], str]:
    """Say something, and return the result of the tool that was called, and the last prompt."""
    assert isinstance(chat.model.answers, list)
    chat.model.answers[len(chat.model.sent) :] = answers
    state = chat.say(words)
    results = [message for message in state["messages"] if message.type == "tool"]
    return json.loads(results[-1].text), chat.model.sent[-1].text


def test_expanded_log_has_its_own_rounds(tmp_path: Path) -> None:
    """An effort that was concluded in the middle of a turn comes back alone, with the request."""
    chat = working(tmp_path, call("close_effort"))

    _, prompt = said(chat, "Show it.", call("expand_effort", effort_id="ledger"), "Here.")

    assert LEDGER in prompt
    assert prompt.count(REQUEST) == 1
    assert GATEWAY not in prompt


def test_two_logs_of_one_turn(tmp_path: Path) -> None:
    """Of two efforts of a turn the second log does not count as shown by the first."""
    chat = working(tmp_path, call("close_effort"))
    said(chat, "Show it.", call("expand_effort", effort_id="ledger"), "Here.")

    _, prompt = said(chat, "And that.", call("expand_effort", effort_id="gateway"), "Here.")

    assert (prompt.count(LEDGER), prompt.count(GATEWAY)) == (2, 2)  # a call, and its result


def test_head_of_a_log_says_where_to_read_on(tmp_path: Path) -> None:
    """Of a log that is too long for the context the rest is read where its own rounds stand."""
    words = " ".join(f"word{number}" for number in range(4_000))
    chat = working(tmp_path, call("look", what=words), call("close_effort"))
    result, prompt = said(chat, "Show.", call("expand_effort", effort_id="gateway"), "Here.")
    ((tokens, offset),) = re.findall(
        r"(\d+) tokens left out; read_log\(turns=.1., offset=(\d+)", prompt
    )

    read = call("read_log", turns="1", offset=int(offset))
    result, prompt = said(chat, "Read on.", read, "Here.")

    head = prompt[: prompt.index("tokens left out")]
    last = max(int(number) for number in re.findall(r"word(\d+)", head))
    first = int(re.findall(r"word(\d+)", words_of(result["turns"][0]))[0])
    assert int(tokens) > 1_000
    assert first - last in {0, 1, 2}  # the cut may be in a word


def test_effort_of_this_turn_is_read_where_it_stands(tmp_path: Path) -> None:
    """Expanding what the running turn concluded says where its rounds are."""
    expand = call("expand_effort", effort_id="ledger")
    chat = working(tmp_path, call("close_effort"), expand)
    results = [m.text for m in chat.model.sent[-1].messages if m.type == "tool"]
    (offset,) = re.findall(r"offset=(\d+)", json.loads(results[-1])["error"])

    result, _ = said(chat, "Read.", call("read_log", turns="1", offset=int(offset)), "Here.")

    assert words_of(result["turns"][0]).startswith("open_effort ")


def test_search_gives_passages_to_their_effort(tmp_path: Path) -> None:
    """What was found in a round is of that round's effort, or of none."""
    chat = working(tmp_path, call("close_effort"))
    found = {}
    for words in ("Ahab", "zebra", "Ishmael"):
        result, _ = said(chat, "Search.", call("search_efforts", query=words), "Found.")
        found[words] = {
            one.get("id"): [passage.get("text", "") for passage in one["passages"]]
            for one in result["results"]
        }

    assert GATEWAY not in str(found["Ahab"].get("ledger"))
    assert LEDGER in str(found["Ahab"]["ledger"])
    assert BETWEEN in str(found["zebra"][None])
    assert GATEWAY in str(found["Ishmael"]["gateway"])


def test_export_has_an_effort_in_its_file(tmp_path: Path) -> None:
    """The file of an effort has its rounds, the log what is of none."""
    chat = working(tmp_path / "archive", call("close_effort"))

    export_folder(chat.archive, SESSION, tmp_path / "out")

    files = {path.name: path.read_text() for path in (tmp_path / "out").rglob("*.jsonl")}
    facts = (LEDGER, BETWEEN, GATEWAY)
    assert [fact in files["ledger.jsonl"] for fact in facts] == [True, False, False]
    assert [fact in files["raw.jsonl"] for fact in facts] == [False, True, False]
    assert [fact in files["gateway.jsonl"] for fact in facts] == [False, False, True]


def test_compression_reads_its_own_rounds(tmp_path: Path) -> None:
    """An open effort is compressed from its rounds, without those of another one in a turn."""
    extracting = ScriptedModel(structured=lambda _: {"new": []})
    options = {"extraction_model": extracting, "settings": Settings(context_budget=4_000)}
    chat = working(tmp_path, **options)

    chat.model.answers = lambda _: "We talked. " * 150
    for number in range(8):
        chat.say(f"And now number {number}?")

    read = [asked.text for asked in extracting.asked if GATEWAY in asked.text]
    assert read != []
    assert [LEDGER in text or BETWEEN in text for text in read] == [False] * len(read)
    assert chat.agent.get_state(THREAD).values["memory"]["active_effort"] == "gateway"


def test_another_effort_is_closed_by_its_name(tmp_path: Path) -> None:
    """Only the round that closed it is its own; the others are those of the active effort."""
    script = [
        *(call("open_effort", name="ledger"), "Opened."),
        *(call("open_effort", name="gateway"), "Opened."),
        *(call("close_effort", effort_id="ledger"), call("look", what=GATEWAY), "Done."),
    ]
    chat = talk(tmp_path, script, tools=[look])

    state = chat.say_all(("The ledger.", "The gateway.", "The ledger is done."))[-1]

    assert kept(chat.turns(state)[-1]) == [("ledger", 0, 3), ("gateway", 3, 6)]

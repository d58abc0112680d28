"""The setting `language`."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from ebbtide import Settings, commands
from tests.agents import THREAD
from tests.agents import talk as agent_of


def test_words_are_found_in_forms_of_the_language_that_is_set(tmp_path: Path) -> None:
    """Of history that is brought along and of what is said, though no word shows the language."""
    settings = Settings(language="finnish")
    talk = agent_of(tmp_path, ["Selvä."] * 3, settings=settings)
    history = [HumanMessage("Taloissa asuu."), AIMessage("Selvä."), HumanMessage("Hei.")]
    talk.agent.invoke({"messages": history}, THREAD)
    talk.say("Kukkien kasvu.")

    found = [commands.search(talk.agent, THREAD, word).results for word in ("taloista", "kukat")]

    assert [one[0].passages[0].turn for one in found] == [1, 3]


def test_a_language_that_nobody_can_stem_is_an_error() -> None:
    """The error names the languages there are."""
    with pytest.raises(ValueError, match="finnish"):
        Settings(language="klingon")

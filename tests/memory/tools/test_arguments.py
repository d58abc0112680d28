"""The arguments of the memory tools, as models send them."""

from math import nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.tool_names import MEMORY_TOOLS
from ebbtide.memory.tools.toolbox import arguments_of
from tests.draws import examples
from tests.memory.conversations import LONG_ENOUGH, call, conversation

LONG = "x" * 10_000
ODD = st.recursive(
    st.sampled_from([None, True, 5, -1, 1 << 70, 1.5, nan, "", "a", "a\ud800", LONG, "1-9"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("tool", "sent", "taken"),
    [
        ("open_effort", {"constraints": "no downtime, ever"}, ("no downtime, ever",)),
        ("open_effort", {"constraints": None}, ()),
        ("expand_effort", {"turns": "[3,4]"}, "3,4"),
        ("expand_effort", {"turns": ["3-5", "8"]}, "3-5,8"),
        ("expand_effort", {"turns": 7}, "7"),
        ("expand_effort", {"turns": None}, ""),
        ("close_effort", {"effort_id": None}, ""),
        ("read_log", {"offset": None}, 0),
    ],
)
def test_arguments_are_taken_as_models_write_them(
    tool: str, sent: dict[str, Any], taken: object
) -> None:
    """A string is one constraint, turns come in each form, null stands for what is left out."""
    fields = arguments_of(tool).model_fields.items()
    needed = {name: "3" for name, field in fields if field.is_required()}
    read = arguments_of(tool).model_validate({**needed, **sent})

    assert [dict(read)[name] for name in sent] == [taken]


def arguments(tool: str) -> st.SearchStrategy[Any]:
    """Return values for all arguments that a tool requires, and for some of the others."""
    fields = arguments_of(tool).model_fields if tool in MEMORY_TOOLS else {}
    needed = {name: ODD for name, field in fields.items() if field.is_required()}
    others = {name: ODD for name in (*fields, LONG) if name not in needed}
    return st.fixed_dictionaries(needed, optional=others) | ODD


@pytest.mark.thorough
@settings(max_examples=examples(15))
@given(st.data())
def test_any_arguments_are_answered(data: st.DataObject) -> None:
    """Wrong ones with an error that is short and can be stored, and that changes nothing."""
    with conversation() as talk:
        talk.turn(LONG_ENOUGH)
        talk.ask("And now?")
        for tool in (*sorted(MEMORY_TOOLS), LONG):
            before = talk.state
            (result,) = talk.run({**call(tool), "args": data.draw(arguments(tool))})

            assert str(talk.messages[-1].content).encode()
            if "error" in result:
                assert len(result["error"]) < 1_000
                assert talk.state == before

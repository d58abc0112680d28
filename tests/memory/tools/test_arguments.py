"""The arguments of the memory tools, as models send them."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ebbtide.memory.tools.toolbox import arguments_of

TOOLS = (
    *("open_effort", "close_effort", "reopen_effort", "update_goal", "collapse_effort"),
    *("expand_effort", "effort_status", "read_log", "search_efforts"),
)
Open, Active, Reopen, UpdateGoal, Collapse, Expand, Nothing, ReadLog, Search = map(
    arguments_of, TOOLS
)


@pytest.mark.parametrize(
    ("sent", "constraints"),
    [
        (["no downtime", "keep the API"], ["no downtime", "keep the API"]),
        ("no downtime, ever", ["no downtime, ever"]),
        (None, []),
    ],
)
def test_constraints_may_come_as_one_string(sent: Any, constraints: list[str]) -> None:
    """A string is one constraint, nothing is none."""
    arguments = dict(Open.model_validate({"name": "a", "constraints": sent}))

    assert [*arguments["constraints"]] == constraints


@pytest.mark.parametrize(
    ("sent", "turns"),
    [("[3,4]", "3,4"), (["3-5", "8"], "3-5,8"), (7, "7"), (None, ""), ("all", "all")],
)
def test_turns_may_come_as_a_list_or_a_number(sent: Any, turns: str) -> None:
    """Turn numbers are taken in each form in which models write them."""
    arguments = dict(Expand.model_validate({"effort_id": "a", "turns": sent}))

    assert arguments["turns"] == turns


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (Active, {"effort_id": None}),
        (UpdateGoal, {"goal": None, "add_constraints": None, "drop_constraints": None}),
        (Expand, {"effort_id": "a", "turns": None, "query": None}),
        (ReadLog, {"turns": "3", "offset": None, "session": None}),
    ],
)
def test_null_stands_for_what_was_left_out(
    arguments: type[BaseModel], sent: dict[str, Any]
) -> None:
    """Models that send null for an optional argument mean its default."""
    given = {name: value for name, value in sent.items() if value is not None}

    assert arguments.model_validate(sent) == arguments.model_validate(given)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (Open, {}),
        (Open, {"name": 5}),
        (Open, {"name": "a", "constraints": {"rule": "b"}}),
        (Active, {"effort_id": ["a"]}),
        (ReadLog, {"turn": "last"}),
        (ReadLog, {"turn": 1, "session": ["b"]}),
        (Nothing, {"verbose": True}),
    ],
)
def test_what_is_missing_wrong_or_unknown_is_refused(
    arguments: type[BaseModel], sent: dict[str, Any]
) -> None:
    """Missing, unknown and mistyped arguments are errors."""
    with pytest.raises(ValidationError):
        arguments.model_validate(sent)

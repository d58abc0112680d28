"""The arguments of the memory tools, as a model may send them."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _as_turns(value: Any) -> Any:
    """Return turns as text, however a model lists them."""
    listed = ",".join(map(str, value)) if isinstance(value, list) else value
    return "" if listed is None else str(listed).strip().strip("[]")


# Models send null for what they leave out, and one text where a list is asked for.
_Number = Annotated[int, BeforeValidator(lambda value: 0 if value is None else value)]
_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
_Texts = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) and value else value or []),
]
_Turns = Annotated[str, BeforeValidator(_as_turns)]


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are an error that the model reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(Arguments):
    """No arguments."""


class Open(Arguments):
    """Arguments of `open_effort`."""

    name: str
    goal: _Text = ""
    constraints: _Texts = []


class Active(Arguments):
    """Arguments of `close_effort` (none: the active effort) and `switch_effort` (none: pause)."""

    effort_id: _Text = ""


class Reopen(Arguments):
    """Arguments of `reopen_effort`; a goal takes the place of the finished one."""

    effort_id: str
    goal: _Text = ""


class UpdateGoal(Arguments):
    """Arguments of `update_goal`; what is empty stays as it is."""

    goal: _Text = ""
    rationale: _Text = ""
    add_constraints: _Texts = []
    drop_constraints: _Texts = []


class Collapse(Arguments):
    """Arguments of `collapse_effort`."""

    effort_id: str


class Expand(Arguments):
    """Arguments of `expand_effort`; `turns` such as "3-5,8", `query` in plain words."""

    effort_id: str
    turns: _Turns = ""
    query: _Text = ""


class ReadLog(Arguments):
    """Arguments of `read_log`; the offset counts in the first turn, no session is this one."""

    turns: _Turns
    offset: _Number = 0
    session: _Text = ""


class Search(Arguments):
    """Arguments of `search_efforts`; words or a question; without a limit the setting's holds."""

    query: _Text
    limit: _Number = 0

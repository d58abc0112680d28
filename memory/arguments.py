"""The arguments of the memory tools, as a model may send them."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) and value else value or []


def _as_text(value: Any) -> Any:
    return "" if value is None else value


def _as_turns(value: Any) -> Any:
    listed = ",".join(str(item) for item in value) if isinstance(value, list) else _as_text(value)
    return str(listed).strip().strip("[]")


Text = Annotated[str, BeforeValidator(_as_text)]
Turns = Annotated[str, BeforeValidator(_as_turns)]


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are an error that the model reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(Arguments):
    """No arguments."""


class Open(Arguments):
    """Arguments of `open_effort`."""

    name: str
    goal: Text = ""
    constraints: Annotated[list[str], BeforeValidator(_as_list)] = []


class Close(Arguments):
    """Arguments of `close_effort`; none is the active effort."""

    effort_id: str | None = None


class EffortId(Arguments):
    """Arguments of the tools that take just an effort."""

    effort_id: str


class UpdateGoal(Arguments):
    """Arguments of `update_goal`."""

    goal: str
    rationale: Text = ""


class Expand(Arguments):
    """Arguments of `expand_effort`; `turns` such as "3-5,8", `query` in plain words."""

    effort_id: str
    turns: Turns = ""
    query: Text = ""


class ReadLog(Arguments):
    """Arguments of `read_log`; the offset counts characters, no session is the present one."""

    turn: int
    offset: int = 0
    session: Text = ""


class Search(Arguments):
    """Arguments of `search_efforts`; words to look for, or a question."""

    query: Text

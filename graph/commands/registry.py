"""The registry: a command is written once, and each surface takes it from here.

A function with `@command` is one of `ebbtide.commands`, a slash command of `ebbtide chat`, a route
of a LangGraph server and, with an `Action`, a button of the inspector's page.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_type_hints

from langchain_core.messages import BaseMessage, messages_to_dict
from langchain_core.runnables import RunnableConfig
from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    create_model,
)

from ...memory.errors import SettingsError
from ...memory.settings import describe
from .threads import Agent, on_a_thread

Messages: TypeAlias = Annotated[
    list[BaseMessage], PlainSerializer(messages_to_dict, return_type=list[dict[str, Any]])
]
"""Messages in a result; JSON has them as LangChain's `messages_to_dict` does."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Action:
    """A button of the page beside a turn, an effort or a memory; its `question` is asked first."""

    beside: Literal["turn", "effort", "memory"]
    label: str
    question: str = ""


@dataclass(frozen=True)  # without slots: a cached property needs a `__dict__`
class Command:
    """A command: a function of an agent, the config of a run, and parameters.

    Attributes:
        function: What it does. The first line of its docstring is the help.
        changes: Whether it changes anything.
        path: The path of its route below `/ebbtide/`, "" without one.
        method: The method of its route. The chat and the page ask before a DELETE.
        usage: How it is written in the chat, "" if it is not there.
        words: The pattern of what follows its name there, with a group for each parameter.
        states: The states of an effort or a memory in which it does something, empty for all.
        action: Its button on the page.
        given: Parameters that a route has if the client leaves them out.
    """

    function: Callable[..., Any]
    changes: bool
    path: str
    method: str
    usage: str
    words: str = "(.*)"
    states: tuple[str, ...] = ()
    action: Action | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def help(self) -> str:
        """What it does, in a line."""
        return str(self.function.__doc__).partition("\n")[0]

    @property
    def slash(self) -> str:
        """Its name in the chat, such as "/context show"."""
        return re.sub(r"[ \[]+[^a-z ].*", "", self.usage)

    @property
    def asynchronous(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The form of the function for asynchronous code."""
        return on_a_thread(self.function)

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """What a person gives; `effort` is the name of `effort_id` for him."""
        hints = get_type_hints(self.function, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if one.default is one.empty else one.default)
            for name, one in _of_a_person(self.function).items()
        }
        config = ConfigDict(
            arbitrary_types_allowed=True,
            populate_by_name=True,
            # `user_id` has no other name: a server says whose it is, and nobody else.
            alias_generator=lambda name: name if name == "user_id" else name.removesuffix("_id"),
        )
        return create_model(self.name, __config__=config, **fields)

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        """The type of its result, which writes it as JSON and has the schema of that."""
        return TypeAdapter(get_type_hints(self.function, include_extras=True)["return"])

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function; raises `SettingsError` for what is not valid."""
        try:
            return dict(self.parameters.model_validate(given))
        except ValidationError as error:
            raise SettingsError(describe(error)) from None

    def answered(
        self, agent: Agent, config: RunnableConfig, context: object = None, **arguments: Any
    ) -> Any:
        """Run the function, and return its result as JSON has it."""
        around = {"config": config, "context": context}
        taken = {name: around[name] for name in around.keys() & signature(self.function).parameters}
        done = self.function(agent, **taken, **arguments)
        return self.result.dump_python(done, mode="json")


COMMANDS: dict[str, Command] = {}
"""The commands by name."""


def command(
    *,
    changes: bool = False,
    path: str = "threads/{thread_id}/{name}",
    slash: str = "/{name}",
    **fields: Any,
) -> Callable[[_Function], _Function]:
    """Register a function as a `Command`, with its further `fields`.

    By default it is a route of a thread, and a slash command with its first parameter; one that is
    named such as `open_effort` is the route `efforts/open` and `/open`.
    """

    def register(function: _Function) -> _Function:
        name = function.__name__
        method = fields.pop("method", "POST" if changes else "GET")
        verb = name.removesuffix("_effort")
        route = path.replace("{name}", name if verb == name else f"efforts/{verb}")
        usage = slash.replace("{name}", verb)
        for one in [*_of_a_person(function).values()][: "{name}" in slash]:
            word = one.name.removesuffix("_id").upper()
            usage += f" {word}" if one.default is one.empty else f" [{word}]"
        COMMANDS[name] = Command(function, changes, route, method, usage, **fields)
        return function

    return register


def _of_a_person(function: Callable[..., Any]) -> dict[str, Parameter]:
    around = {"agent", "config", "context"}
    return {k: one for k, one in signature(function).parameters.items() if k not in around}

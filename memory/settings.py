"""The settings of an agent, which are also the context schema of its graph."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import snowballstemmer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .errors import SettingsError
from .serialised import clean
from .turn import without_controls

_log = logging.getLogger("ebbtide.config")

ATTENTION_THRESHOLD = 40.0
"""Minimum strength in attention. An unused memory of base 50 stays above it for 20 days."""


LANGUAGES = frozenset(snowballstemmer.algorithms()) - {"porter", "dutch_porter"}
"""Languages whose words can be stemmed; the others are older ways to stem English and Dutch."""

_NEAR = 0.75
"""Likeness from which an unknown name is taken for a known one: `userId` is, `user` is not."""

_ALL_TURNS = 1_000_000_000
"""More turns than a session has."""


class Settings(BaseModel):
    """The settings of an agent. One run can override them with `context={...}`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context_budget: int = Field(
        default=16_000,
        ge=2_000,
        le=2_000_000,
        description="Token limit for everything that is sent",
    )
    ambient_window: int = Field(
        default=10,
        ge=0,
        le=10_000,
        description="Ambient turns that a new plan shows; half as many more may collect; 0 = all",
    )
    rebuild: Literal["on-change", "every-turn"] = Field(
        default="on-change",
        description="When text that is due leaves: with the next change of the plan, or each turn",
    )
    messages_window: int | None = Field(
        default=2,
        ge=0,
        le=100,
        description="Earlier turns kept in `messages`, for chat pages; None = all, and all rounds",
    )
    max_tool_rounds: int | None = Field(
        default=None,
        ge=0,
        le=1_000,
        description="Maximum rounds of tool calls in a turn; None = no limit",
    )
    decay_threshold: int = Field(
        default=3,
        ge=1,
        le=100_000,
        description="Turns without a reference until an expanded log collapses",
    )
    min_keyword_overlap: int = Field(
        default=2,
        ge=1,
        le=50,
        description="Distinctive keywords in a message that count as a reference",
    )
    summary_eviction_threshold: int = Field(
        default=20,
        ge=1,
        le=100_000,
        description="Turns without a reference until a summary is due; it leaves within 5 more",
    )
    search_limit: int = Field(
        default=10,
        ge=1,
        le=50,
        description="Maximum efforts and turns that `search_efforts` returns",
    )
    semantic_floor: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Minimum cosine for text that shares no word, with embeddings",
    )
    recall_hints: int = Field(
        default=3,
        ge=0,
        le=20,
        description="Maximum hints at archived efforts per user message; 0 = off",
    )
    summary_max_tokens: int = Field(
        default=120, ge=20, le=4_000, description="Maximum length of a summary, in tokens"
    )
    anchor: Literal["on-change", "always", "off"] = Field(
        default="on-change", description="When the model writes its state block"
    )
    compression: Literal["salience", "protected-core", "off"] = Field(
        default="salience", description="How the older part of a long open effort is compressed"
    )
    extraction_model: str | None = Field(
        default=None, min_length=1, description="Model that chooses quotes (default: the agent's)"
    )
    compression_model: str | None = Field(
        default=None,
        min_length=1,
        description="Model that writes backgrounds (default: the agent's)",
    )
    similarity_threshold: float = Field(
        default=0.85, gt=0, le=1, description="Similarity above which two quotes are merged"
    )
    attention_threshold: float = Field(
        default=ATTENTION_THRESHOLD,
        gt=0,
        le=100,
        description="Minimum strength of a memory in attention",
    )
    attention_limit: int = Field(
        default=10,
        ge=0,
        le=200,
        description="Maximum memories surfaced when a session starts; 0 = off",
    )
    language: str = Field(
        default="english",
        description="Language of the users if a text is too short to show it, such as finnish",
    )
    timezone: str = Field(
        default="",
        description="Time zone of dates and hours, such as Europe/Berlin; default: the machine's",
    )
    user_id: str | None = Field(
        default=None,
        coerce_numbers_to_str=True,
        description="The user of the run; cannot be set for the agent",
    )

    if not TYPE_CHECKING:  # type checkers take the arguments from the fields

        def __init__(self, **values: Any) -> None:
            """Raise `SettingsError` for unknown names and bad values, all in one plain line."""
            try:
                super().__init__(**values)
            except ValidationError as error:
                names = [name for name in type(self).model_fields if name != "user_id"]
                raise SettingsError(describe(error, names)) from None

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield what differs from the defaults, which is what a person looks for.

        >>> Settings(context_budget=8_000)
        Settings(context_budget=8000)
        """
        fields = type(self).model_fields
        return ((name, value) for name, value in self if value != fields[name].default)

    @field_validator("language")
    @classmethod
    def _known_language(cls, language: str) -> str:
        if language not in LANGUAGES:
            raise ValueError(f"pass one of {', '.join(sorted(LANGUAGES))}")
        return language

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, zone: str) -> str:
        try:
            return ZoneInfo(zone).key if zone else ""
        except (ValueError, OSError, ZoneInfoNotFoundError) as error:
            raise ValueError("pass the name of a time zone, such as Europe/Berlin") from error

    @property
    def earlier_turns(self) -> int:
        """The number of earlier turns that are kept in `messages`."""
        return _ALL_TURNS if self.messages_window is None else self.messages_window


def describe(error: ValidationError, names: Sequence[str] = ()) -> str:
    """Return what is wrong with each field in one line, quoting the values.

    With the `names` of all fields, an unknown one is told with the one that is meant.
    """

    def told(item: Mapping[str, Any]) -> str:
        name = ".".join(map(str, item["loc"]))
        if names and item["type"] == "extra_forbidden":
            return f"unknown key {name!r}: {choices(name, names)}"
        if item["type"] == "missing":
            return f"{name} is missing"
        return f"{name}: {item['msg']} (got {item['input']!r})"

    return "; ".join(told(dict(item)) for item in error.errors())


def meant(name: str, names: Iterable[str] | None = None, near: float = _NEAR) -> str:
    """Return the question after the setting, or one of `names`, that a name nearly is, else "".

    >>> meant("contxt_budget"), meant("tenant")
    ("did you mean 'context_budget'?", '')
    """
    known = [*(Settings.model_fields if names is None else names)]
    close = get_close_matches(name, known, n=1, cutoff=near)
    return f"did you mean {close[0]!r}?" if close else ""


def choices(name: str, names: Iterable[str]) -> str:
    """Return what to use in the place of an unknown name.

    >>> choices("colour", ["color", "size"]), choices("x", ["color", "size"])
    ("did you mean 'color'? Use one of color, size", 'use one of color, size')
    """
    use = f"{question} Use" if (question := meant(name, names)) else "use"
    return f"{use} one of {', '.join(names)}"


def user_named(user: object) -> str:
    """Return a user id as text; raise `SettingsError` if it is not valid.

    >>> user_named("ann"), user_named(42)
    ('ann', '42')
    """
    name = str(user) if isinstance(user, str | int) and not isinstance(user, bool) else ""
    if not name or clean(name) != name:
        raise SettingsError(
            f"user_id: pass a non-empty string without lone surrogates (got {user!r})"
        )
    return without_controls("user_id", name)


@lru_cache(maxsize=100)
def _warn_of(name: str) -> None:
    """Warn once of a key of a run's context that is nearly a setting."""
    if question := meant(name):
        _log.warning("the context has %r, which is no setting: %s", name, question)


def resolve(context: object, defaults: Settings) -> Settings:
    """Return the settings of a run: those in `context`, otherwise `defaults`.

    `context` is a `Settings`, a mapping, or any object of the application; names that are no
    settings are ignored. Raises `SettingsError` for a bad value.

    >>> resolve({"ambient_window": 3, "tenant": "x"}, Settings(max_tool_rounds=2)).max_tool_rounds
    2
    """
    if context is None:
        return defaults
    names = list(Settings.model_fields)
    if isinstance(context, Settings):  # an application may add fields in a subclass
        names = [name for name in names if name in context.model_fields_set]
    if isinstance(context, Mapping):
        chosen = {name: context[name] for name in names if name in context}
        for name in context.keys() - chosen.keys():
            _warn_of(str(name))
    else:
        values = {name: getattr(context, name, None) for name in names}
        chosen = {
            name: value
            for name, value in values.items()
            # Methods are no settings; but a method `user_id` must not fall back to another user.
            if value is not None and (name == "user_id" or not callable(value))
        }
    if chosen.get("user_id") not in (None, ""):
        chosen["user_id"] = user_named(chosen["user_id"])
    return Settings(**{**defaults.model_dump(), **chosen}) if chosen else defaults

"""The settings of an agent, which are also the context schema of its graph."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import snowballstemmer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .errors import SettingsError
from .messages import clean

ATTENTION_THRESHOLD = 40.0
"""Minimum strength in attention. An unused memory of base 50 stays above it for 20 days."""


LANGUAGES = frozenset(snowballstemmer.algorithms()) - {"porter", "dutch_porter"}
"""Languages whose words can be stemmed; the others are older ways to stem English and Dutch."""

_ALL_TURNS = 1_000_000_000
"""More turns than a session has."""


class Settings(BaseModel):
    """The settings of an agent. One run can override them with `context={...}`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context_budget: int = Field(
        16_000, ge=2_000, le=2_000_000, description="Token limit for everything that is sent"
    )
    ambient_window: int = Field(
        10,
        ge=0,
        le=10_000,
        description="Ambient turns that a new plan shows; half as many more may collect; 0 = all",
    )
    rebuild: Literal["on-change", "every-turn"] = Field(
        "on-change",
        description="When text that is due leaves: with the next change of the plan, or each turn",
    )
    messages_window: int | None = Field(
        2,
        ge=0,
        le=100,
        description="Earlier turns kept in `messages`, for chat pages; None = all, and all rounds",
    )
    max_tool_rounds: int | None = Field(
        None,
        ge=0,
        le=1_000,
        description="Maximum rounds of tool calls in a turn; None = no limit",
    )
    decay_threshold: int = Field(
        3, ge=1, le=100_000, description="Turns without a reference until an expanded log collapses"
    )
    min_keyword_overlap: int = Field(
        2, ge=1, le=50, description="Distinctive keywords in a message that count as a reference"
    )
    summary_eviction_threshold: int = Field(
        20, ge=1, le=100_000, description="Turns without a reference until a summary is evicted"
    )
    search_limit: int = Field(
        5, ge=1, le=50, description="Maximum efforts and turns that `search_efforts` returns"
    )
    semantic_floor: float = Field(
        0.3, ge=0, le=1, description="Minimum cosine for text that shares no word, with embeddings"
    )
    recall_hints: int = Field(
        3, ge=0, le=20, description="Maximum hints at archived efforts per user message; 0 = off"
    )
    summary_max_tokens: int = Field(
        120, ge=20, le=4_000, description="Maximum length of a summary, in tokens"
    )
    anchor: Literal["on-change", "always", "off"] = Field(
        "on-change", description="When the model writes its state block"
    )
    compression: Literal["salience", "protected-core", "off"] = Field(
        "salience", description="How the older part of a long open effort is compressed"
    )
    extraction_model: str | None = Field(
        None, min_length=1, description="Model that chooses quotes (default: the agent's)"
    )
    compression_model: str | None = Field(
        None, min_length=1, description="Model that writes backgrounds (default: the agent's)"
    )
    similarity_threshold: float = Field(
        0.85, gt=0, le=1, description="Similarity above which two quotes are merged"
    )
    attention_threshold: float = Field(
        ATTENTION_THRESHOLD,
        gt=0,
        le=100,
        description="Minimum strength of a memory in attention",
    )
    attention_limit: int = Field(
        10, ge=0, le=200, description="Maximum memories surfaced when a session starts; 0 = off"
    )
    language: str = Field(
        "english",
        description="Language of the users if a text is too short to show it, such as finnish",
    )
    timezone: str = Field(
        "",
        description="Time zone of dates and hours, such as Europe/Berlin; default: the machine's",
    )
    user_id: str | None = Field(
        None,
        coerce_numbers_to_str=True,
        description="The user of the run; cannot be set for the agent",
    )

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
    return name


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
    try:
        return Settings(**{**defaults.model_dump(), **chosen}) if chosen else defaults
    except ValidationError as error:
        raise SettingsError(describe(error)) from error


def describe(error: ValidationError) -> str:
    """Return what is wrong with each field in one line, quoting the values."""
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']} (got {item['input']!r})"
        for item in error.errors()
    )

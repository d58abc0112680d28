"""Templates: scripted conversations with their ground truth, and the shipped ones.

A turn of a template is one message of the user or of the assistant, with its tool call. The numbers
of turns rise, may begin anywhere and may have gaps.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ..memory.compressions import CUT
from ..memory.efforts import one_line
from ..memory.errors import EbbtideError

Words: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that is not blank."""


class EvaluationError(EbbtideError, ValueError):
    """A template, a strategy, a file or a verdict cannot be used in an evaluation."""


class Strict(BaseModel):
    """The content of a file: unknown fields, NaN and infinity are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ToolCall(Strict):
    """A tool call that the assistant makes before it answers, with the tool's output."""

    name: Words
    arguments: dict[str, Any] = {}
    output: str


class Decision(Strict):
    """A decision of a turn, and the reason for it."""

    decision: Words
    rationale: Words


class GoalChange(Strict):
    """The goal from a turn on, and the reason for the change."""

    goal: Words
    rationale: Words


class TemplateTurn(Strict):
    """A message of the user or the assistant; a compression point comes after it."""

    turn_id: int = Field(ge=1)
    role: Literal["user", "assistant"]
    content: Words
    tool_call: ToolCall | None = None
    decision: Decision | None = None
    goal_change: GoalChange | None = None
    is_compression_point: bool = False

    @model_validator(mode="after")
    def _only_the_assistant_calls(self) -> "TemplateTurn":
        if self.tool_call and self.role != "assistant":
            raise ValueError("tool_call: only a turn of the assistant can have one")
        return self

    def messages(self) -> Iterator[AnyMessage]:
        """Yield the messages of the turn: its tool call and the result, if any, and the text."""
        number = f"turn-{self.turn_id}"
        if self.role == "user":
            yield HumanMessage(self.content, id=number)
            return
        if tool := self.tool_call:
            name, call_id = tool.name, f"call-{self.turn_id}"
            call = {"name": name, "args": tool.arguments, "id": call_id, "type": "tool_call"}
            yield AIMessage("", tool_calls=[call], id=f"{number}-call")
            yield ToolMessage(tool.output, tool_call_id=call_id, name=name, id=f"{number}-result")
        yield AIMessage(self.content, id=number)


class InitialSetup(Strict):
    """The beginning of a conversation, as a strategy gets it."""

    original_goal: Words
    hard_constraints: tuple[Words, ...] = ()
    system_prompt: str = ""


class Superseded(Strict):
    """A sentence (`old`) that another one (`by`) makes untrue or irrelevant."""

    old: Words
    by: Words


class GroundTruth(Strict):
    """The truth about sentences; constraints are None if the template does not list them.

    `given` are sentences that a strategy is told: it may quote them, and need not. `same` maps a
    salient sentence to others with its meaning: a quote of any of them counts as its quote.
    """

    constraints: tuple[Words, ...] | None = None
    given: tuple[Words, ...] = ()
    same: dict[Words, tuple[Words, ...]] = {}
    superseded: tuple[Superseded, ...] = ()


class BehavioralTest(Strict):
    """A tempting request, asked once all it `needs` holds; answers that keep or lose the goal."""

    prompt: Words
    needs: tuple[Words, ...] = ()
    aligned: Words
    drifted: Words


_Listed = BeforeValidator(lambda value: [value] if isinstance(value, str | dict) else value)
"""Accepts one value without a list."""


class ProbingTasks(Strict):
    """The questions about a compressed context."""

    goal_probe: Annotated[tuple[Words, ...], _Listed] = ()
    constraint_probe: Words | None = None
    behavioral_test: Annotated[tuple[BehavioralTest, ...], _Listed] = ()

    def goal(self, point: int) -> str | None:
        """Return the goal probe of a point, numbered from 1: the points use the probes in turn."""
        return self.goal_probe[(point - 1) % len(self.goal_probe)] if self.goal_probe else None


class Template(Strict):
    """A conversation with its compression points, ground truth and probing tasks.

    `ground_truth_salience` lists for each `compression_point_N` the sentences that became salient
    since the point before, word for word.
    """

    template_id: Words
    initial_setup: InitialSetup
    turns: tuple[TemplateTurn, ...] = Field(min_length=1)
    ground_truth: GroundTruth = GroundTruth()
    probing_tasks: ProbingTasks = ProbingTasks()
    ground_truth_salience: dict[str, tuple[Words, ...]] = {}

    @model_validator(mode="after")
    def _numbers_rise(self) -> "Template":
        for earlier, turn in pairwise(self.turns):
            if turn.turn_id <= earlier.turn_id:
                raise ValueError(f"turns: turn_id {turn.turn_id} follows {earlier.turn_id}")
        if not self.points:
            raise ValueError("turns: no turn has is_compression_point")
        return self

    @model_validator(mode="after")
    def _sentences_stand_in_the_turns(self) -> "Template":
        points = {point.key: point for point in self.points}
        for key, sentences in self.ground_truth_salience.items():
            if key not in points:
                raise ValueError(f"ground_truth_salience.{key}: there is no such point")
            _check(f"ground_truth_salience.{key}", sentences, points[key].turns)
        truth, tests = self.ground_truth, self.probing_tasks.behavioral_test
        fields = {
            "ground_truth.constraints": truth.constraints or (),
            "ground_truth.given": truth.given,
            "ground_truth.same": (*truth.same, *chain(*truth.same.values())),
            "ground_truth.superseded": [
                text for pair in truth.superseded for text in (pair.old, pair.by)
            ],
            "probing_tasks.behavioral_test.needs": [text for test in tests for text in test.needs],
        }
        for field, texts in fields.items():
            _check(field, texts, self.turns)
        return self

    @property
    def points(self) -> tuple["Point", ...]:
        """The compression points, numbered from 1."""
        ends = [turn.turn_id for turn in self.turns if turn.is_compression_point]
        return tuple(Point(self, number, turn_id) for number, turn_id in enumerate(ends, start=1))

    @property
    def digest(self) -> str:
        """The identity of the content: 16 hex digits of its SHA-256."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def until(self, turn_id: int) -> tuple[TemplateTurn, ...]:
        """Return the turns up to this number; it is no position."""
        return tuple(turn for turn in self.turns if turn.turn_id <= turn_id)

    def as_salient(self, quotes: Iterable[str]) -> list[str]:
        """Return quotes, each that has the meaning of a salient sentence replaced by it."""
        same = self.ground_truth.same.items()
        salient = {one_line(variant): sentence for sentence, texts in same for variant in texts}
        return [salient.get(one_line(quote), quote) for quote in quotes]


@dataclass(frozen=True, slots=True)
class Point:
    """A compression point: its number, the turn before it, and the truth at that turn."""

    template: Template
    number: int
    turn_id: int

    @property
    def key(self) -> str:
        """The key of the point in the ground truth."""
        return f"compression_point_{self.number}"

    @property
    def turns(self) -> tuple[TemplateTurn, ...]:
        """The turns up to the point."""
        return self.template.until(self.turn_id)

    @property
    def goal(self) -> str:
        """The goal at the point: the newest change, or the original goal."""
        changes = [turn.goal_change for turn in self.turns if turn.goal_change]
        return changes[-1].goal if changes else self.template.initial_setup.original_goal

    @property
    def constraints(self) -> tuple[str, ...] | None:
        """The constraints that hold, None if the template does not list any."""
        constraints = self.template.ground_truth.constraints
        return None if constraints is None else self._holding(constraints)

    @property
    def given(self) -> tuple[str, ...]:
        """The sentences that hold and that the strategy was told."""
        return self._holding(self.template.ground_truth.given)

    @property
    def temptations(self) -> tuple[BehavioralTest, ...]:
        """The behavioural tests whose needs all hold."""
        tests = self.template.probing_tasks.behavioral_test
        return tuple(test for test in tests if len(self._holding(test.needs)) == len(test.needs))

    def salient(self, through: int | None = None) -> tuple[str, ...] | None:
        """Return the salient sentences that hold, of turns up to `through`; None without a list."""
        listed = self.template.ground_truth_salience
        if self.key not in listed:
            return None
        keys = [point.key for point in self.template.points[: self.number]]
        sentences = (sentence for key in keys for sentence in listed.get(key, ()))
        return self._holding(sentences, through)

    def _holding(self, sentences: Iterable[str], through: int | None = None) -> tuple[str, ...]:
        """Return each sentence that was said and that none supersedes, once."""
        turns = self.turns if through is None else self.template.until(through)
        pairs = self.template.ground_truth.superseded
        superseded = {one_line(pair.old) for pair in pairs if stands_in(pair.by, turns)}
        spoken = dict.fromkeys(one_line(text) for text in sentences if stands_in(text, turns))
        return tuple(sentence for sentence in spoken if sentence not in superseded)


def stands_in(quote: str, turns: Sequence[TemplateTurn]) -> bool:
    """Tell whether a quote stands word for word in one of the turns, white space aside."""
    outputs = [turn.tool_call.output for turn in turns if turn.tool_call]
    texts = (*(turn.content for turn in turns), *outputs)
    parts = [part.strip() for part in one_line(quote).split(CUT)]
    return any(all(part in one_line(text) for part in parts) for text in texts)


def _check(field: str, sentences: Iterable[str], turns: Sequence[TemplateTurn]) -> None:
    for sentence in sentences:
        if not stands_in(sentence, turns):
            raise ValueError(f"{field}: {sentence!r} is in no turn up to that point")


SHIPPED: Mapping[str, Path] = {
    path.stem: path for path in sorted(Path(__file__).parent.glob("templates/*.json"))
}
"""The files of the shipped templates by name."""

_LONGEST_VALUE = 160
"""Characters of an invalid value that an error quotes."""


def read_template(name: str) -> Template:
    """Return a template by its name or by the path of its file; raises `EvaluationError`."""
    path = SHIPPED.get(name, Path(name))
    place = f"template {str(path)!r}"
    try:
        return Template.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        shipped = ", ".join(SHIPPED)
        raise EvaluationError(f"{place}: no such file; shipped are {shipped}") from error
    except OSError as error:
        raise EvaluationError(f"{place}: {error.strerror or type(error).__name__}") from error
    except ValidationError as error:
        faults = []
        for fault in error.errors(include_url=False):
            problem = fault["msg"].removeprefix("Value error, ")
            if fault["type"] not in {"missing", "value_error"}:
                value = repr(fault["input"])
                problem += (
                    f" (got {value[:_LONGEST_VALUE]}{'…' if len(value) > _LONGEST_VALUE else ''})"
                )
            field = ".".join(map(str, fault["loc"]))
            faults.append(f"{field}: {problem}" if field else problem)
        raise EvaluationError(f"{place}: {'; '.join(faults)}") from error


def read_templates(names: Iterable[str]) -> dict[str, Template]:
    """Return templates by their ids; raises `EvaluationError` if two have one id."""
    templates: dict[str, Template] = {}
    for name in names:
        template = read_template(name)
        if template.template_id in templates:
            problem = f"template_id: {template.template_id!r} is that of another template too"
            raise EvaluationError(f"template {name!r}: {problem}")
        templates[template.template_id] = template
    return templates

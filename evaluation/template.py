"""Templates: scripted conversations and the truth about them; those that are shipped.

In a template a turn is what one side says at once; tool calls belong to the assistant's turn that
makes them. Its number is its own: numbers rise, and may begin anywhere and have gaps.

The errors of an evaluation, each beside what raises it:

EvaluationError
├── TemplateFileError       a template cannot be read, or is not of the form
├── StrategyError           no such strategy, or what it needs is not installed or not said
├── JudgeError              the judge's answer is no score
├── TapeError               a file of recorded answers is damaged, or has none for a call
└── ResultsError            the folder holds results of another setup, or is in use
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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

from ..memory.efforts import one_line
from ..memory.errors import EbbtideError

Words: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that says something."""


class EvaluationError(EbbtideError, ValueError):
    """The root of the errors of an evaluation."""


class TemplateFileError(EvaluationError):
    """A template cannot be read, or is not of the form."""

    def __init__(self, path: Path, problem: str) -> None:
        """Name the file, and say what is wrong in which field."""
        super().__init__(f"template {str(path)!r}: {problem}")


class Strict(BaseModel):
    """What a file holds: nothing else, and nothing that is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ToolCall(Strict):
    """A tool call that the assistant makes before it answers, and what came back."""

    name: Words
    arguments: dict[str, Any] = {}
    output: str


class Decision(Strict):
    """What was decided in a turn, and why."""

    decision: Words
    rationale: Words


class GoalChange(Strict):
    """The goal from a turn on, and why it is another one."""

    goal: Words
    rationale: Words


class TemplateTurn(Strict):
    """What one side says at once; at a compression point the context is compressed after it."""

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
        """Yield its messages; those of a tool call are the call, its result and the words."""
        number = f"turn-{self.turn_id}"
        if self.role == "user":
            yield HumanMessage(self.content, id=number)
            return
        if used := self.tool_call:
            name, call_id = used.name, f"call-{self.turn_id}"
            call = {"name": name, "args": used.arguments, "id": call_id, "type": "tool_call"}
            yield AIMessage("", tool_calls=[call], id=f"{number}-call")
            yield ToolMessage(used.output, tool_call_id=call_id, name=name, id=f"{number}-result")
        yield AIMessage(self.content, id=number)


class InitialSetup(Strict):
    """What a strategy is told at the beginning."""

    original_goal: Words
    hard_constraints: tuple[Words, ...] = ()
    system_prompt: str = ""


class Superseded(Strict):
    """A sentence that no longer holds, or no longer matters, once another one was said."""

    old: Words
    by: Words


class GroundTruth(Strict):
    """What is known of sentences beside when they are salient; None if it is not known.

    `given` say what a strategy is told: it is not asked to quote them, and may. `same` has for a
    salient sentence others that say as much: a quote of any of them finds it.
    """

    constraints: tuple[Words, ...] | None = None
    given: tuple[Words, ...] = ()
    same: dict[Words, tuple[Words, ...]] = {}
    superseded: tuple[Superseded, ...] = ()


class BehavioralTest(Strict):
    """A request that tempts, once all that it `needs` holds; how answers keep or lose the goal."""

    prompt: Words
    needs: tuple[Words, ...] = ()
    aligned: Words
    drifted: Words


_Listed = BeforeValidator(lambda value: [value] if isinstance(value, str | dict) else value)
"""One value needs no list."""


class ProbingTasks(Strict):
    """The questions that are asked on a compressed context."""

    goal_probe: Annotated[tuple[Words, ...], _Listed] = ()
    constraint_probe: Words | None = None
    behavioral_test: Annotated[tuple[BehavioralTest, ...], _Listed] = ()

    def goal(self, point: int) -> str | None:
        """Return the goal probe of a point, numbered from 1: probes take turns."""
        return self.goal_probe[(point - 1) % len(self.goal_probe)] if self.goal_probe else None


class Template(Strict):
    """A conversation with its compression points, ground truth and probing tasks.

    `ground_truth_salience` lists for each `compression_point_N` the sentences that became salient
    since the point before, word for word as they were said.
    """

    template_id: Words
    initial_setup: InitialSetup
    turns: tuple[TemplateTurn, ...] = Field(min_length=1)
    ground_truth: GroundTruth = GroundTruth()
    probing_tasks: ProbingTasks = ProbingTasks()
    ground_truth_salience: dict[str, tuple[Words, ...]] = {}

    @model_validator(mode="after")
    def _numbers_rise(self) -> "Template":
        for before, turn in pairwise(self.turns):
            if turn.turn_id <= before.turn_id:
                raise ValueError(f"turns: turn_id {turn.turn_id} follows {before.turn_id}")
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
        same = [text for sentence, others in truth.same.items() for text in (sentence, *others)]
        superseded = [text for pair in truth.superseded for text in (pair.old, pair.by)]
        needs = [text for test in tests for text in test.needs]
        _check("ground_truth.constraints", truth.constraints or (), self.turns)
        _check("ground_truth.given", truth.given, self.turns)
        _check("ground_truth.same", same, self.turns)
        _check("ground_truth.superseded", superseded, self.turns)
        _check("probing_tasks.behavioral_test.needs", needs, self.turns)
        return self

    @property
    def points(self) -> tuple["Point", ...]:
        """The compression points, numbered from 1."""
        ends = [turn.turn_id for turn in self.turns if turn.is_compression_point]
        return tuple(Point(self, number, turn_id) for number, turn_id in enumerate(ends, start=1))

    @property
    def digest(self) -> str:
        """By what the template is known again: 16 hex digits of its SHA-256."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def until(self, turn_id: int) -> tuple[TemplateTurn, ...]:
        """Return the turns up to the one of this number, which is no position."""
        return tuple(turn for turn in self.turns if turn.turn_id <= turn_id)

    def as_salient(self, quotes: Iterable[str]) -> list[str]:
        """Return quotes; one that says as much as a salient sentence is that sentence."""
        same = self.ground_truth.same.items()
        names = {one_line(other): sentence for sentence, others in same for other in others}
        return [names.get(one_line(quote), quote) for quote in quotes]


@dataclass(frozen=True, slots=True)
class Point:
    """A compression point: its number, the turn after which it comes, and what is true there."""

    template: Template
    number: int
    turn_id: int

    @property
    def key(self) -> str:
        """Its name in the ground truth."""
        return f"compression_point_{self.number}"

    @property
    def turns(self) -> tuple[TemplateTurn, ...]:
        """The turns up to it."""
        return self.template.until(self.turn_id)

    @property
    def goal(self) -> str:
        """The goal as it is by then: the original one, or the newest change."""
        changes = [turn.goal_change for turn in self.turns if turn.goal_change]
        return changes[-1].goal if changes else self.template.initial_setup.original_goal

    @property
    def constraints(self) -> tuple[str, ...] | None:
        """The constraints that hold, None if the template does not know."""
        constraints = self.template.ground_truth.constraints
        return None if constraints is None else self._holding(constraints)

    @property
    def given(self) -> tuple[str, ...]:
        """The sentences of what a strategy was told itself that hold."""
        return self._holding(self.template.ground_truth.given)

    @property
    def temptations(self) -> tuple[BehavioralTest, ...]:
        """The behavioural tests that need nothing but what was said and holds."""
        tests = self.template.probing_tasks.behavioral_test
        return tuple(test for test in tests if len(self._holding(test.needs)) == len(test.needs))

    def salient(self, through: int | None = None) -> tuple[str, ...] | None:
        """Return the listed sentences that hold, of turns up to `through`; None without a list."""
        listed = self.template.ground_truth_salience
        if self.key not in listed:
            return None
        keys = [point.key for point in self.template.points[: self.number]]
        sentences = (sentence for key in keys for sentence in listed.get(key, ()))
        return self._holding(sentences, through)

    def says(self, quote: str) -> bool:
        """Tell whether a quote stands word for word in one of the turns."""
        return stands_in(quote, self.turns)

    def _holding(self, sentences: Iterable[str], through: int | None = None) -> tuple[str, ...]:
        """Return once each sentence that was said by then, and that no newer one supersedes."""
        turns = self.turns if through is None else self.template.until(through)
        pairs = self.template.ground_truth.superseded
        gone = {one_line(pair.old) for pair in pairs if stands_in(pair.by, turns)}
        spoken = dict.fromkeys(one_line(text) for text in sentences if stands_in(text, turns))
        return tuple(sentence for sentence in spoken if sentence not in gone)


def stands_in(quote: str, turns: Sequence[TemplateTurn]) -> bool:
    """Tell whether a quote stands word for word in one of the turns, white space aside."""
    outputs = [turn.tool_call.output for turn in turns if turn.tool_call]
    texts = (*(turn.content for turn in turns), *outputs)
    return any(one_line(quote) in one_line(text) for text in texts)


def _check(field: str, sentences: Sequence[str], turns: Sequence[TemplateTurn]) -> None:
    """Raise `ValueError` if a sentence stands in none of the turns."""
    for sentence in sentences:
        if not stands_in(sentence, turns):
            raise ValueError(f"{field}: {sentence!r} stands in no turn up to there")


SHIPPED: Mapping[str, Path] = {
    path.stem: path for path in sorted(Path(__file__).parent.glob("templates/*.json"))
}
"""The files of the templates that are shipped, by name."""

_LONGEST = 160
"""Characters of a fault that an error shows."""


def read_template(name: str) -> Template:
    """Return a template by its name or by the path of its file; raises `TemplateFileError`."""
    path = SHIPPED.get(name, Path(name))
    try:
        return Template.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        problem = f"no such file; shipped are {', '.join(SHIPPED)}"
        raise TemplateFileError(path, problem) from error
    except OSError as error:
        raise TemplateFileError(path, error.strerror or type(error).__name__) from error
    except ValidationError as error:
        faults = []
        for fault in error.errors(include_url=False):
            problem = fault["msg"].removeprefix("Value error, ")
            if fault["type"] not in {"missing", "value_error"}:
                value = repr(fault["input"])
                problem += f" (got {value[:_LONGEST]}{'…' if len(value) > _LONGEST else ''})"
            field = ".".join(map(str, fault["loc"]))
            faults.append(f"{field}: {problem}" if field else problem)
        raise TemplateFileError(path, "; ".join(faults)) from error


def read_templates(names: Iterable[str]) -> dict[str, Template]:
    """Return templates by their ids; raises `TemplateFileError` if two have one id."""
    templates: dict[str, Template] = {}
    for name in names:
        template = read_template(name)
        if template.template_id in templates:
            problem = f"template_id: {template.template_id!r} is that of another template too"
            raise TemplateFileError(Path(name), problem)
        templates[template.template_id] = template
    return templates

"""The judge: a model that scores answers by a rubric."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field, ValidationError

from ..memory.messages import fenced
from ..prompts.loader import render
from .results import TapeError, write_whole
from .template import BehavioralTest, EvaluationError

Model = TypeVar("Model", bound=BaseModel)


class JudgeError(EvaluationError):
    """The judge's answer is no score."""

    def __init__(self, wanted: str, answer: str) -> None:
        """Quote the answer."""
        super().__init__(f"the judge was asked for {wanted}, and answered {answer[:200]!r}")


@dataclass(frozen=True, slots=True)
class Judge:
    """Scores answers; its own answers are kept in a folder, by the digest of name and prompt.

    `name` is the model's, so that another one judges anew. With recorded answers in place of a
    model nothing is kept, and one that is missing is a `TapeError`; what is no score is a
    `JudgeError`, and is not kept either. `noted` are its answers, by digest.
    """

    name: str
    model: BaseChatModel | Mapping[str, str]
    folder: Path
    noted: dict[str, str] = field(default_factory=dict)

    def goal(self, goal: str, answer: str) -> float:
        """Score how well an answer knows the goal, from 0 to 1."""
        asked = render(
            "evaluation/judge_goal", goal=fenced("goal", goal), answer=fenced("answer", answer)
        )
        return self._ask(asked, score)

    def behaviour(self, test: BehavioralTest, answer: str) -> float:
        """Score how well an answer to a tempting request keeps to the goal, from 0 to 1."""
        asked = render(
            "evaluation/judge_behaviour",
            request=fenced("request", test.prompt),
            aligned=fenced("keeps", test.aligned),
            drifted=fenced("leaves", test.drifted),
            answer=fenced("answer", answer),
        )
        return self._ask(asked, score)

    def constraints(self, rules: Sequence[str], others: Sequence[str], answer: str) -> float:
        """Return the share of the rules that an answer knows; one in neither list is invented."""
        listed = "\n".join(f"{number}. {rule}" for number, rule in enumerate(rules, start=1))
        asked = render(
            "evaluation/judge_constraints",
            number=len(rules),
            constraints=fenced("constraints", listed),
            said=fenced("said", "\n".join(others)),
            answer=fenced("answer", answer),
        )
        return self._ask(asked, lambda verdict: known(verdict, len(rules)))

    def _ask(self, asked: str, parse: Callable[[str], float]) -> float:
        """Return what the answer says; the one that is kept, if this was asked before."""
        digest = hashlib.sha256(f"{self.name}\n{asked}".encode("utf-8", "replace")).hexdigest()
        path = self.folder / f"{digest}.json"
        cached: str | None = None
        if isinstance(self.model, BaseChatModel):
            with suppress(FileNotFoundError, ValidationError):  # a damaged file counts as none
                cached = _Kept.model_validate_json(path.read_bytes()).said
            verdict = str(self.model.invoke(asked).text) if cached is None else cached
        elif digest in self.model:
            verdict = cached = self.model[digest]
        else:
            raise TapeError("there is no recorded answer of the judge: record this trial again")
        self.noted[digest] = verdict
        value = parse(verdict)
        if cached is None:
            write_whole(path, json.dumps({"said": verdict}))
        return value


class _Kept(BaseModel):
    said: str


class _Score(BaseModel, strict=True):
    score: Annotated[float, Field(ge=0, le=1)]


class _Known(BaseModel, strict=True):
    known: list[bool]
    invented: list[Any]


def score(verdict: str) -> float:
    """Return the score in a judge's answer; raises `JudgeError` if there is none from 0 to 1.

    >>> score('The answer is close. {"score": 0.75, "why": "One detail is missing."}')
    0.75
    """
    return _parsed(_Score, verdict, "a score from 0 to 1").score


def known(verdict: str, number: int) -> float:
    """Return the share of `number` constraints that are known; an invented one counts as unknown.

    Raises `JudgeError` if the verdict has not as many values, or others.

    >>> known('{"known": [true, false], "invented": []}', 2)
    0.5
    """
    wanted = f"{number} values, each true or false, and a list of rules that are invented"
    parsed = _parsed(_Known, verdict, wanted)
    if len(parsed.known) != number:
        raise JudgeError(wanted, verdict)
    return sum(parsed.known) / (number + len(parsed.invented))


def _parsed(kind: type[Model], verdict: str, wanted: str) -> Model:
    """Return the JSON object in an answer, whatever stands around it."""
    text = verdict[verdict.find("{") : verdict.rfind("}") + 1]
    try:
        return kind.model_validate_json(text.encode("utf-8", "replace"))
    except ValidationError as error:
        raise JudgeError(wanted, verdict) from error

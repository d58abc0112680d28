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
from .results import TapeError, write_atomically
from .template import BehavioralTest, EvaluationError

Model = TypeVar("Model", bound=BaseModel)


class JudgeError(EvaluationError):
    """The judge's answer is no score."""

    def __init__(self, form: str, answer: str) -> None:
        """Say which form the answer should have, and quote it."""
        super().__init__(f"the judge was asked for {form}, and answered {answer[:200]!r}")


@dataclass(frozen=True, slots=True)
class Judge:
    """Scores answers; a verdict is cached in a folder by the digest of the model's name and prompt.

    `model` may be recorded verdicts by digest: then nothing is cached, and a missing verdict is a
    `TapeError`. A verdict without a score is a `JudgeError` and is not cached. `verdicts` collects
    the verdicts of this object by digest.
    """

    name: str
    model: BaseChatModel | Mapping[str, str]
    folder: Path
    verdicts: dict[str, str] = field(default_factory=dict)

    def goal(self, goal: str, answer: str) -> float:
        """Score how well an answer knows the goal, from 0 to 1."""
        prompt = render(
            "evaluation/judge_goal", goal=fenced("goal", goal), answer=fenced("answer", answer)
        )
        return self._verdict(prompt, score)

    def behaviour(self, test: BehavioralTest, answer: str) -> float:
        """Score how well an answer to a tempting request keeps to the goal, from 0 to 1."""
        prompt = render(
            "evaluation/judge_behaviour",
            request=fenced("request", test.prompt),
            aligned=fenced("keeps", test.aligned),
            drifted=fenced("leaves", test.drifted),
            answer=fenced("answer", answer),
        )
        return self._verdict(prompt, score)

    def constraints(self, rules: Sequence[str], sentences: Sequence[str], answer: str) -> float:
        """Return the share of the rules that an answer knows.

        A rule of the answer that is neither among the rules nor the sentences counts as invented.
        """
        listed = "\n".join(f"{number}. {rule}" for number, rule in enumerate(rules, start=1))
        prompt = render(
            "evaluation/judge_constraints",
            number=len(rules),
            constraints=fenced("constraints", listed),
            said=fenced("said", "\n".join(sentences)),
            answer=fenced("answer", answer),
        )
        return self._verdict(prompt, lambda verdict: known_share(verdict, len(rules)))

    def _verdict(self, prompt: str, parse: Callable[[str], float]) -> float:
        """Return the score in the judge's verdict: the cached one, if there is one."""
        digest = hashlib.sha256(f"{self.name}\n{prompt}".encode("utf-8", "replace")).hexdigest()
        path = self.folder / f"{digest}.json"
        cached: str | None = None
        if isinstance(self.model, BaseChatModel):
            with suppress(FileNotFoundError, ValidationError):  # a damaged file counts as none
                cached = _Cached.model_validate_json(path.read_bytes()).said
            verdict = str(self.model.invoke(prompt).text) if cached is None else cached
        elif digest in self.model:
            verdict = cached = self.model[digest]
        else:
            raise TapeError("there is no recorded answer of the judge: record this trial again")
        self.verdicts[digest] = verdict
        value = parse(verdict)
        if cached is None:  # only what was parsed: a verdict without a score is asked for again
            write_atomically(path, json.dumps({"said": verdict}))
        return value


class _Cached(BaseModel):
    said: str


class _Score(BaseModel, strict=True):
    score: Annotated[float, Field(ge=0, le=1)]


class _Known(BaseModel, strict=True):
    known: list[bool]
    invented: list[Any]


def score(verdict: str) -> float:
    """Return the score in a verdict; raises `JudgeError` if there is none from 0 to 1.

    >>> score('The answer is close. {"score": 0.75, "why": "One detail is missing."}')
    0.75
    """
    return _parsed(_Score, verdict, "a score from 0 to 1").score


def known_share(verdict: str, number: int) -> float:
    """Return the share of known constraints among `number` and the invented ones.

    Raises `JudgeError` if the verdict is not of this form, or has another number of values.

    >>> known_share('{"known": [true, false], "invented": []}', 2)
    0.5
    """
    form = f"{number} values, each true or false, and a list of rules that are invented"
    parsed = _parsed(_Known, verdict, form)
    if len(parsed.known) != number:
        raise JudgeError(form, verdict)
    return sum(parsed.known) / (number + len(parsed.invented))


def _parsed(kind: type[Model], verdict: str, form: str) -> Model:
    """Return the JSON object in a verdict, whatever text surrounds it."""
    text = verdict[verdict.find("{") : verdict.rfind("}") + 1]
    try:
        return kind.model_validate_json(text.encode("utf-8", "replace"))
    except ValidationError as error:
        raise JudgeError(form, verdict) from error

"""The judge: a model that scores answers by a rubric."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field, ValidationError

from ..memory.fences import Fences
from ..memory.tokens import count
from ..prompts.loader import render
from .answers import Answers
from .template import BehavioralTest, EvaluationError

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


FENCES = Fences("271828182", count)
"""The fences of what is judged; with a key that is known, so that recorded answers are found."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a judge found in an answer: the rules that it lacks, and those that it made up.

    `share` is that of the known rules among all rules and the invented ones.
    """

    share: float
    unknown: tuple[str, ...]
    invented: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """Scores answers; a verdict is kept among `answers` by the model's name and the prompt.

    A verdict without a score is an `EvaluationError` and is not kept.
    """

    name: str
    model: BaseChatModel
    answers: Answers

    def goal(self, goal: str, answer: str) -> float:
        """Score how well an answer knows the goal, from 0 to 1."""
        prompt = render(
            "evaluation/judge_goal",
            goal=FENCES.around("goal", goal),
            answer=FENCES.around("answer", answer),
        )
        return self._verdict(prompt, score)

    def behaviour(self, test: BehavioralTest, answer: str) -> float:
        """Score how well an answer to a tempting request keeps to the goal, from 0 to 1."""
        prompt = render(
            "evaluation/judge_behaviour",
            request=FENCES.around("request", test.prompt),
            aligned=FENCES.around("keeps", test.aligned),
            drifted=FENCES.around("leaves", test.drifted),
            answer=FENCES.around("answer", answer),
        )
        return self._verdict(prompt, score)

    def constraints(self, rules: Sequence[str], sentences: Sequence[str], answer: str) -> Known:
        """Return which of the rules an answer knows.

        A rule of the answer that is neither among the rules nor the sentences counts as invented.
        """
        listed = "\n".join(f"{number}. {rule}" for number, rule in enumerate(rules, start=1))
        prompt = render(
            "evaluation/judge_constraints",
            number=len(rules),
            constraints=FENCES.around("constraints", listed),
            said=FENCES.around("said", "\n".join(sentences)),
            answer=FENCES.around("answer", answer),
        )
        return self._verdict(prompt, lambda verdict: known(verdict, rules))

    def _verdict(self, prompt: str, parse: Callable[[str], Result]) -> Result:
        """Return the score in the judge's verdict: the one that is kept, if there is one."""
        request = f"{self.name}\n{prompt}"
        kept = self.answers.get(request)
        if kept is not None:
            return parse(str(kept))
        verdict = str(self.model.invoke(prompt).text)
        value = parse(verdict)
        self.answers.put(request, verdict)  # what was not parsed is asked for again
        return value


class _Score(BaseModel, strict=True):
    score: Annotated[float, Field(ge=0, le=1)]


class _Known(BaseModel, strict=True):
    known: list[bool]
    invented: list[Any]


def score(verdict: str) -> float:
    """Return the score in a verdict; raises `EvaluationError` if there is none from 0 to 1.

    >>> score('The answer is close. {"score": 0.75, "why": "One detail is missing."}')
    0.75
    """
    return _parsed(_Score, verdict, "a score from 0 to 1").score


def known(verdict: str, rules: Sequence[str]) -> Known:
    """Return what a verdict says of an answer that should know these rules.

    Raises `EvaluationError` if the verdict is not of this form, or has another number of values.

    >>> known('{"known": [true, false], "invented": []}', ["By rail.", "In June."])
    Known(share=0.5, unknown=('In June.',), invented=())
    """
    form = f"{len(rules)} values, each true or false, and a list of rules that are invented"
    parsed = _parsed(_Known, verdict, form)
    if len(parsed.known) != len(rules):
        raise EvaluationError(f"the judge was asked for {form}, and answered {verdict[:200]!r}")
    return Known(
        sum(parsed.known) / (len(rules) + len(parsed.invented)),
        tuple(rule for rule, is_known in zip(rules, parsed.known, strict=True) if not is_known),
        tuple(map(str, parsed.invented)),
    )


def _parsed(kind: type[Model], verdict: str, form: str) -> Model:
    """Return the JSON object in a verdict, whatever text surrounds it."""
    text = verdict[verdict.find("{") : verdict.rfind("}") + 1]
    try:
        return kind.model_validate_json(text.encode("utf-8", "replace"))
    except ValidationError as error:
        asked = f"the judge was asked for {form}, and answered {verdict[:200]!r}"
        raise EvaluationError(asked) from error

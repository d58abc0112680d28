"""The judge, a model that scores answers by a rubric, and the questions that are answered."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import local
from typing import Annotated, Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..memory.messages import fenced
from ..prompts.loader import render
from .failures import JudgeError, TapeError
from .strategy import transcript
from .template import BehavioralTest

Parsed = TypeVar("Parsed")
Model = TypeVar("Model", bound=BaseModel)


class Judge:
    """Scores answers; its own answers are kept in a folder, by the digest of name and prompt.

    With `recorded` no model is asked and nothing kept; an answer that is not there is a
    `TapeError`. An answer that is no score is a `JudgeError`, and is not kept either.
    """

    def __init__(
        self,
        name: str,
        model: BaseChatModel | None,
        folder: Path,
        recorded: Mapping[str, str] | None = None,
    ) -> None:
        """Keep answers in `folder`; `name` is the model's, so that another one judges anew."""
        self.name = name
        self._model = model
        self._folder = folder
        self._recorded = recorded
        self._mine = local()

    def begin(self) -> dict[str, str]:
        """Begin a trial in this thread; return where its answers are noted, by digest."""
        self._mine.noted = {}
        noted: dict[str, str] = self._mine.noted
        return noted

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

    def constraints(self, constraints: Sequence[str], said: Sequence[str], answer: str) -> float:
        """Return the share, 0 to 1, of the constraints that an answer knows; there is one at least.

        `said` is what else holds: a rule that stands in neither list is invented, and counts as one
        more that is not known.
        """
        listed = "\n".join(f"{at}. {one}" for at, one in enumerate(constraints, start=1))
        asked = render(
            "evaluation/judge_constraints",
            number=len(constraints),
            constraints=fenced("constraints", listed),
            said=fenced("said", "\n".join(said)),
            answer=fenced("answer", answer),
        )
        found, more = self._ask(asked, lambda told: known(told, len(constraints)))
        return sum(found) / (len(found) + more)

    def _ask(self, asked: str, parse: Callable[[str], Parsed]) -> Parsed:
        digest = hashlib.sha256(f"{self.name}\n{asked}".encode("utf-8", "replace")).hexdigest()
        path = self._folder / f"{digest}.json"
        kept = _kept(path) if self._recorded is None else None
        said = self._said(digest, asked) if kept is None else kept
        self._mine.noted[digest] = said
        parsed = parse(said)
        if kept is None and self._recorded is None:
            _keep(path, said)
        return parsed

    def _said(self, digest: str, asked: str) -> str:
        if self._recorded is not None and digest in self._recorded:
            return self._recorded[digest]
        if self._model is None:
            raise TapeError("there is no recorded answer of the judge: record this trial again")
        return str(self._model.invoke(asked).text)


class _Score(BaseModel):
    model_config = ConfigDict(strict=True)
    score: Annotated[float, Field(ge=0, le=1)]


class _Known(BaseModel):
    model_config = ConfigDict(strict=True)
    known: list[bool]
    invented: list[Any]


def score(said: str) -> float:
    """Return the score in a judge's answer; raises `JudgeError` if there is none from 0 to 1.

    >>> score('The answer is close. {"score": 0.75, "why": "One detail is missing."}')
    0.75
    """
    return _parsed(_Score, said, "a score from 0 to 1").score


def known(said: str, number: int) -> tuple[list[bool], int]:
    """Return so many truth values of a judge's answer, and how many rules it says are invented.

    Raises `JudgeError` if there are other values.

    >>> known('{"known": [true, false], "invented": ["No cars."]}', 2)
    ([True, False], 1)
    """
    wanted = f"{number} values, each true or false, and a list of rules that are invented"
    told = _parsed(_Known, said, wanted)
    if len(told.known) != number:
        raise JudgeError(wanted, said)
    return told.known, len(told.invented)


def _parsed(kind: type[Model], said: str, wanted: str) -> Model:
    """Return the JSON object in an answer, whatever stands around it."""
    found = said[said.find("{") : said.rfind("}") + 1]
    try:
        return kind.model_validate_json(found.encode("utf-8", "replace"))
    except ValidationError as error:
        raise JudgeError(wanted, said) from error


def _kept(path: Path) -> str | None:
    """Return an answer that is kept; a file that is damaged counts as none."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return kept["said"] if isinstance(kept, dict) and isinstance(kept.get("said"), str) else None


def _keep(path: Path, said: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump({"said": said}, file)
    Path(file.name).replace(path)


@dataclass(frozen=True, slots=True)
class Probes:
    """Asks a model that knows nothing but a context, under the instructions of the template."""

    model: BaseChatModel
    judge: Judge
    system_prompt: str

    def answer(self, context: Sequence[AnyMessage], question: str) -> str:
        """Return what the model says; the context is quoted, since no provider takes any other."""
        known = fenced("context", transcript(context))
        asked = render("evaluation/probe", context=known, question=question)
        system: list[BaseMessage] = [SystemMessage(self.system_prompt)]
        said = [*(system if self.system_prompt else []), HumanMessage(asked)]
        return str(self.model.invoke(said).text)

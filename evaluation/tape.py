"""What a model says in one trial, call by call: counted, written down, or played again.

A tape is the model's cache, which LangChain asks before every call, so that everything else is what
it is without one. Calls are known by their order, since the texts of some agents hold random ids: a
trial makes one after the other.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration
from pydantic import BaseModel
from typing_extensions import override

from .results import append, read_lines
from .template import EvaluationError, Strict

_MILLION = 1_000_000
"""Prices are for a million tokens."""

Answers: TypeAlias = Sequence[Mapping[str, Any]]
"""The messages that answered the calls of one trial, in their order."""


class TapeError(EvaluationError):
    """A file of recorded answers is damaged, or has none for a call."""


class AnswerTape(BaseCache):
    """The answers to the calls of one trial; with `recorded` these answer and no model is asked.

    A call that is repeated because it failed is one call.
    """

    def __init__(self, recorded: Answers | None = None) -> None:
        """Begin with the first call."""
        self._recorded = recorded
        self._open: set[tuple[str, str]] = set()
        self.answers: list[Mapping[str, Any]] = []
        """All answers so far."""

        self.missing = 0
        """The calls for which there was no recorded answer."""

    @property
    def failed(self) -> int:
        """The calls that were never answered: without them the trial cannot be played again."""
        return len(self._open)

    @override
    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the recorded answer of the next call, None if the model is to be asked."""
        if self._recorded is None:
            self._open.add((prompt, llm_string))
            return None
        number = len(self.answers)
        if number >= len(self._recorded):
            self.missing += 1
            raise TapeError(f"no recorded answer for call {number + 1}: record the trial again")
        answer = self._recorded[number]
        self.answers.append(answer)
        return [ChatGeneration(message=messages_from_dict([dict(answer)])[0])]

    @override
    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Take note of what the model answered, as plain JSON."""

        def plain(value: object) -> Any:  # parsed structured output, or else what has a text
            return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)

        messages = [choice.message for choice in return_val if isinstance(choice, ChatGeneration)]
        self._open.discard((prompt, llm_string))
        self.answers.append(json.loads(json.dumps(message_to_dict(messages[0]), default=plain)))

    @override
    def clear(self, **kwargs: Any) -> None:
        """Keep everything: a tape is one trial."""

    def spent(self, begin: int, prices: tuple[float, float] | None) -> dict[str, Any]:
        """Return the tokens that the answers from `begin` on took, and their dollars if known.

        Nothing is known of them if one of the answers does not say.
        """
        usages = [answer["data"].get("usage_metadata") for answer in self.answers[begin:]]
        if not all(usages):
            return {}
        read = sum(used["input_tokens"] for used in usages)
        written = sum(used["output_tokens"] for used in usages)
        cost = (read * prices[0] + written * prices[1]) / _MILLION if prices else None
        return {"model_read": read, "model_written": written, "cost": cost}

    def line(self, trial: str, judged: Mapping[str, str]) -> str:
        """Return the line of this trial in a file of tapes."""
        return json.dumps({"trial": trial, "answers": self.answers, "judged": dict(judged)}) + "\n"


class _Head(Strict):
    """The first line of a file: its version, and who spoke."""

    tape: Literal[1]
    model: str
    judge: str | None


@dataclass(frozen=True, slots=True)
class Tapes:
    """The tapes of a file: who spoke, the trials by name, the judge's answers by digest."""

    model: str
    judge: str | None
    trials: Mapping[str, Answers]
    judged: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> "Tapes":
        """Read a file of tapes; of two of one trial the later one counts. Raises `TapeError`."""
        try:
            first, *entries = map(json.loads, path.read_bytes().splitlines())
            head = _Head.model_validate(first)
            for entry in entries:
                messages_from_dict(entry["answers"])  # raises for what is no message
            trials = {entry["trial"]: entry["answers"] for entry in entries}
            judged = {at: str(text) for entry in entries for at, text in entry["judged"].items()}
            tapes = cls(head.model, head.judge, trials, judged)
            tapes.jobs()  # raises for what is no name of a trial
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise TapeError(f"{str(path)!r} holds no recorded answers ({why})") from error
        return tapes

    @staticmethod
    def begin(path: Path, model: str, judge: str | None) -> None:
        """Begin a file of tapes, or go on with one of the same model and judge."""
        header = json.dumps({"tape": 1, "model": model, "judge": judge}) + "\n"
        written = path.read_bytes() if path.exists() else b""
        if written.startswith(header.encode()):
            read_lines(path)  # cuts off what a kill left torn
        elif not written:
            append(path, header)
        else:
            raise TapeError(
                f"{str(path)!r} does not hold answers of {model!r}, judged by {judge!r}: "
                "choose another file"
            )

    def jobs(self) -> tuple[list[str], list[str], int]:
        """Return the strategies and the templates on the tapes, and the highest trial.

        >>> Tapes("m", None, {"a/b/1": (), "a/b/2": ()}, {}).jobs()
        (['a'], ['b'], 2)
        """
        strategies, templates, highest = dict[str, None](), dict[str, None](), 0
        for name in self.trials:
            strategy, template_and_trial = name.split("/", 1)
            template, trial = template_and_trial.rsplit("/", 1)
            strategies[strategy] = templates[template] = None  # a dict keeps their order
            highest = max(highest, int(trial))
        return [*strategies], [*templates], highest

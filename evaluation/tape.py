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

from .failures import TapeError
from .results import append, cut_torn_line

_COUNTED = ("input_tokens", "output_tokens")
_MILLION = 1_000_000
"""Prices are for a million tokens."""

Answers: TypeAlias = Sequence[Mapping[str, Any]]
"""The messages that answered the calls of one trial, in their order."""


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
        """Take note of what the model answered."""
        messages = [choice.message for choice in return_val if isinstance(choice, ChatGeneration)]
        self._open.discard((prompt, llm_string))
        self.answers.append(json.loads(json.dumps(message_to_dict(messages[0]), default=_plain)))

    @override
    def clear(self, **kwargs: Any) -> None:
        """Keep everything: a tape is one trial."""


def spent(answers: Answers, prices: tuple[float, float] | None) -> dict[str, Any]:
    """Return the tokens that answers took, and what they cost in dollars if there are prices.

    Nothing is known of them if one of the answers does not say.

    >>> used = {"input_tokens": 2_000_000, "output_tokens": 500_000}
    >>> spent([{"data": {"usage_metadata": used}}], (0.25, 2.0))["cost"]
    1.5
    """
    usages = [answer["data"].get("usage_metadata") for answer in answers]
    if not all(usages):
        return {}
    read, written = (sum(used[name] for used in usages) for name in _COUNTED)
    cost = (read * prices[0] + written * prices[1]) / _MILLION if prices else None
    return {"model_read": read, "model_written": written, "cost": cost}


@dataclass(frozen=True, slots=True)
class Tapes:
    """The tapes of a file: who spoke, the trials by name, the judge's answers by digest."""

    model: str
    judge: str | None
    trials: Mapping[str, Answers]
    judged: Mapping[str, str]

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


class _Head(BaseModel):
    """The first line of a file: its version, and who spoke."""

    tape: Literal[1]
    model: str
    judge: str | None


def read_tapes(path: Path) -> Tapes:
    """Read a file of tapes; of two of one trial the later one counts. Raises `TapeError`."""
    try:
        first, *lines = map(json.loads, path.read_bytes().splitlines())
        head = _Head.model_validate(first)
        for entry in lines:
            messages_from_dict(entry["answers"])  # raises for what is no message
        trials = {entry["trial"]: entry["answers"] for entry in lines}
        judged = {at: str(text) for entry in lines for at, text in entry["judged"].items()}
        tapes = Tapes(head.model, head.judge, trials, judged)
        tapes.jobs()  # raises for what is no name of a trial
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise TapeError(f"{str(path)!r} holds no recorded answers ({why})") from error
    return tapes


def begin_tapes(path: Path, model: str, judge: str | None) -> None:
    """Begin a file of tapes, or go on with one of the same model and judge."""
    header = json.dumps(_Head(tape=1, model=model, judge=judge).model_dump()) + "\n"
    written = path.read_bytes() if path.exists() else b""
    if not written:
        append(path, header)
    elif written.startswith(header.encode()):
        cut_torn_line(path)
    else:
        raise TapeError(
            f"{str(path)!r} does not hold answers of {model!r}, judged by {judge!r}: "
            "choose another file"
        )


def line(trial: str, answers: Answers, judged: Mapping[str, str]) -> str:
    """Return the line of one trial."""
    return json.dumps({"trial": trial, "answers": [*answers], "judged": dict(judged)}) + "\n"


def _plain(value: object) -> Any:
    """Return parsed structured output as JSON, anything else that is no JSON as text."""
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)

"""The errors of an evaluation.

EvaluationError
├── TemplateFileError       a template cannot be read, or is not of the form
├── StrategyError           no such strategy, or what it needs is not installed or not said
├── JudgeError              the judge's answer is no score
├── TapeError               a file of recorded answers is damaged, or has none for a call
└── ResultsError            the folder holds results of another setup, or is in use
"""

from pathlib import Path

from ..memory.errors import EbbtideError


class EvaluationError(EbbtideError, ValueError):
    """The root of the errors of an evaluation."""


class TemplateFileError(EvaluationError):
    """A template cannot be read, or is not of the form."""

    def __init__(self, path: Path, problem: str) -> None:
        """Name the file, and say what is wrong in which field."""
        super().__init__(f"template {str(path)!r}: {problem}")


class StrategyError(EvaluationError):
    """A strategy is unknown, or what it needs is not installed or not said."""


class JudgeError(EvaluationError):
    """The judge's answer is no score."""

    def __init__(self, wanted: str, answer: str) -> None:
        """Quote the answer."""
        super().__init__(f"the judge was asked for {wanted}, and answered {answer[:200]!r}")


class TapeError(EvaluationError):
    """A file of recorded answers is damaged, or has none for a call."""


class ResultsError(EvaluationError):
    """The folder holds results of another setup, or another run is writing there."""

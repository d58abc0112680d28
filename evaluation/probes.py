"""The questions that are asked on a context, and what the judge says of the answers."""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, SystemMessage

from ..memory.messages import fenced
from ..prompts.loader import text as prompt
from .judge import Judge
from .strategy import transcript
from .template import BehavioralTest


class Probes:
    """Asks a model that knows nothing but a context, and lets the judge score what it says."""

    def __init__(self, model: BaseChatModel, judge: Judge, system_prompt: str) -> None:
        """Ask `model` under the instructions of the template."""
        self._model = model
        self._judge = judge
        self._system_prompt = system_prompt

    def goal(self, context: Sequence[AnyMessage], question: str, goal: str) -> float:
        """Return the goal coherence, 0 to 1: whether the context still tells what the goal is."""
        return self._judge.goal(goal, self.answer(context, question))

    def constraints(
        self,
        context: Sequence[AnyMessage],
        question: str,
        constraints: Sequence[str],
        said: Sequence[str],
    ) -> float:
        """Return the constraint recall, 0 to 1: the share that the answer knows.

        `said` is what else holds: a rule that stands in neither list is invented.
        """
        return self._judge.constraints(constraints, said, self.answer(context, question))

    def behaviour(self, context: Sequence[AnyMessage], test: BehavioralTest) -> float:
        """Return the behavioural alignment, 0 to 1: whether the answer keeps to the goal."""
        return self._judge.behaviour(test, self.answer(context, test.prompt))

    def answer(self, context: Sequence[AnyMessage], question: str) -> str:
        """Return what the model says; the context is quoted, since no provider takes any other."""
        known = fenced("context", transcript(context))
        asked = prompt("evaluation/probe", context=known, question=question)
        system: list[BaseMessage] = [SystemMessage(self._system_prompt)]
        said = [*(system if self._system_prompt else []), HumanMessage(asked)]
        return str(self._model.invoke(said).text)

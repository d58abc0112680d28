"""Answers as the adapters of providers give them: with thoughts, ids and signatures."""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import count
from typing import Any

from langchain_core.messages import AIMessage
from langchain_openai.chat_models._compat import _convert_to_v03_ai_message
from langchain_openai.chat_models.base import _construct_lc_result_from_responses_api
from openai.types.responses import Response

Shape = Callable[[AIMessage], AIMessage]


def calls_of(answer: AIMessage) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of all calls of an answer."""
    valid = [(one["id"], one["name"], json.dumps(one["args"])) for one in answer.tool_calls]
    invalid = [(one["id"], one["name"], one["args"]) for one in answer.invalid_tool_calls]
    return [(str(one), str(name), str(args)) for one, name, args in (*valid, *invalid)]


def as_v1(answer: AIMessage) -> AIMessage:
    """Return an answer in LangChain's own blocks, as `output_version="v1"` has it."""
    metadata = {**answer.response_metadata, "output_version": "v1"}
    blocks = [dict(block) for block in answer.content_blocks]
    return answer.model_copy(update={"content": blocks, "response_metadata": metadata})


VERSIONS: Mapping[str, Shape] = {
    "responses/v1": lambda answer: answer,
    "v0": _convert_to_v03_ai_message,
    "v1": as_v1,
}


def responses(version: str) -> Callable[[], Shape]:
    """Return what makes answers of OpenAI's Responses API, in a version of LangChain's output."""

    def fresh() -> Shape:
        numbers = count(1)

        def shape(answer: AIMessage) -> AIMessage:
            number = next(numbers)
            said = [{"type": "output_text", "text": answer.text, "annotations": []}]
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            output: list[dict[str, Any]] = [
                {"type": "reasoning", "id": f"rs_{number}", "summary": []},
                *([{**message, "status": "completed", "content": said}] if answer.text else []),
                *(
                    {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": one}
                    | {"name": name, "arguments": arguments, "status": "completed"}
                    for at, (one, name, arguments) in enumerate(calls_of(answer))
                ),
            ]
            given = {"id": f"resp_{number}", "created_at": 1, "model": "gpt-5", "output": output}
            known = {"object": "response", "parallel_tool_calls": True, "tools": []}
            response = Response.model_validate({**given, **known, "tool_choice": "auto"})
            result = _construct_lc_result_from_responses_api(response)
            made = result.generations[0].message
            assert isinstance(made, AIMessage)
            return VERSIONS[version](made)

        return shape

    return fresh


def gemini_3() -> Shape:
    """Return what makes answers of Gemini 3: the first call of each has a signature."""
    numbers = count(1)
    types = import_module("google.genai.types")
    adapter = import_module("langchain_google_genai.chat_models")

    def shape(answer: AIMessage) -> AIMessage:
        number = next(numbers)
        calls = [
            {"function_call": {"id": one, "name": name, "args": json.loads(arguments)}}
            for one, name, arguments in calls_of(answer)
            if not answer.invalid_tool_calls
        ]
        said = [{"text": answer.text}] if answer.text else []
        parts: list[dict[str, Any]] = [*said, *calls]
        if parts:
            first = len(said) if calls else 0
            parts[first] = {**parts[first], "thought_signature": f"signature {number}".encode()}
        candidate = {"content": {"role": "model", "parts": parts}, "finish_reason": "STOP"}
        response = types.GenerateContentResponse.model_validate(
            {"candidates": [candidate], "model_version": "gemini-3-pro"}
        )
        made = adapter._response_to_result(response).generations[0].message
        assert isinstance(made, AIMessage)
        return made

    return shape


SHAPES: Mapping[str, Callable[[], Shape]] = {
    "responses": responses("responses/v1"),
    "responses v0": responses("v0"),
    "responses v1": responses("v1"),
    "gemini 3": gemini_3,
}

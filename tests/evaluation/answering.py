"""A scripted model over HTTP for the evaluation: it answers, summarises and judges."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.openai_server import Answer, Body, OpenAIServer, Say, Structured

USAGE = (1_000, 100)


def pointed_at(server: OpenAIServer, patch: pytest.MonkeyPatch) -> None:
    """Point OpenAI's client at a server."""
    patch.setenv("OPENAI_API_KEY", "x")
    patch.setenv("OPENAI_BASE_URL", server.url)


def answer(body: Body) -> Answer:
    """Answer a request by what it asks for; the judge finds everything right but one constraint."""
    asked = "\n".join(str(message.get("content")) for message in body["messages"])
    if number := re.search(r"numbered list of (\d+) constraints", asked):
        known = [True] * int(number[1])
        return Say(json.dumps({"known": [*known[:-1], False], "invented": []}), usage=USAGE)
    if "You judge whether" in asked:
        return Say('{"score": 0.75, "why": "One detail is missing."}', usage=USAGE)
    if body.get("response_format") or body.get("tool_choice"):
        return Structured(structured(body))
    return Say("So it is.", usage=USAGE)


def structured(body: Body) -> Mapping[str, Any]:
    """Return a structured answer: one real quote, and one that nobody said."""
    said = re.findall(r"([A-Z][^.\n]{20,80}\.)", str(body["messages"][-1].get("content")))
    quotes = [*said[:1], "The moon is made of green cheese, and that is a constraint."]
    return {"new": [{"quote": one, "kind": "fact"} for one in quotes]}

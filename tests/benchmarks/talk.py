"""A made-up conversation in the form of LoCoMo's: two short sessions and a long one."""

from collections.abc import Mapping, Sequence
from typing import Any

SAID: Mapping[int, Sequence[str]] = {
    1: ["The gateway rejects the certificate.", "Rotate the gateway certificate."],
    2: ["The teal header overlaps.", "Bring the brush and the ladder."],
    3: ["The train to Vienna leaves.", "I see it.", *["A boat.", "A sail."] * 21],
}
SUMMARIES = {
    1: "Ann and Ben rotated the gateway certificate.",
    2: "Ann and Ben painted the teal header with a brush and a ladder.",
    3: "Ann and Ben took the train to Vienna.",
}
QUESTIONS = {
    "Did Ann and Ben rotate the gateway certificate?": "D1:2",
    "What colour has the teal header?": "D2:1",
    "Which gateway header?": "D3:1",
}
MENTION = "The brush and the ladder again."
"""Said in turn 10 of two utterances each; without it no summary would be left after turn 24."""


def conversation(name: str) -> dict[str, Any]:
    """Return the conversation as an item of the file, under a name."""
    said = {**SAID, 3: [*SAID[3][:14], MENTION, *SAID[3][15:]]}
    sessions = {f"session_{number}": _session(number, texts) for number, texts in said.items()}
    return {
        "sample_id": name,
        "conversation": {"speaker_a": "Ann", "speaker_b": "Ben", **sessions},
        "session_summary": {f"session_{n}_summary": text for n, text in SUMMARIES.items()},
        "qa": [{"question": text, "evidence": [where]} for text, where in QUESTIONS.items()],
    }


def _session(number: int, texts: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"speaker": ("Ann", "Ben")[at % 2], "dia_id": f"D{number}:{at + 1}", "text": text}
        for at, text in enumerate(texts)
    ]

"""The scores that need no model: what a context is compared with is what was said."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import truth
from .matching import Alike, agreement
from .strategy import Context, as_messages, size, transcript
from .tape import Usage
from .template import Point, Template, TemplateTurn, folded, stands_in

_MILLION = 1_000_000


def sizes(turns: Sequence[TemplateTurn], context: Context) -> dict[str, Any]:
    """Return the tokens of the conversation before and after, and their ratio."""
    before, left = size(as_messages(turns)), size(context.messages)
    return {"tokens_before": before, "tokens_after": left, "compression_ratio": left / before}


def spent(usage: Usage, prices: tuple[float, float] | None) -> dict[str, Any]:
    """Return the tokens of the model, and what they cost in dollars if there are prices.

    Nothing is known of them if the model was asked and does not report them.

    >>> spent(Usage(2_000_000, 500_000), (0.25, 2.0))["cost"]
    1.5
    """
    if usage.silent:
        return {}
    cost = None
    if prices is not None:
        cost = (usage.read * prices[0] + usage.written * prices[1]) / _MILLION
    return {"model_read": usage.read, "model_written": usage.written, "cost": cost}


def quoted(template: Template, point: Point, context: Context, alike: Alike) -> Mapping[str, Any]:
    """Return what the strategy's quotes are worth; nothing if it chooses none.

    The verbatim rate is the share of quotes that stand in a turn; `fabricated` are those that do
    not, and those that the strategy dropped itself.
    """
    quotes = context.quotes
    if quotes is None:
        return {}
    turns = template.until(point.turn_id)
    real = sum(stands_in(quote, turns) for quote in quotes)
    found: dict[str, Any] = {
        "quotes": len(quotes),
        "verbatim_rate": real / len(quotes) if quotes else None,
        "fabricated": len(quotes) - real + (context.fabricated or 0),
        "fallbacks": context.fallbacks,
    }
    true = truth.salient(template, point, context.through)
    if true is not None:
        told = truth.given(template, point)
        agreed = agreement(truth.named(template, quotes), true, alike, told)
        found["salience_precision"] = agreed.precision
        found["salience_recall"] = agreed.recall
        found["salience_f1"] = agreed.f1
    return found


def kept(template: Template, point: Point, context: Context) -> float | None:
    """Return the share of the constraints that stand in the context word for word.

    None if the template knows no constraint that holds at the point.
    """
    held = truth.constraints(template, point)
    if not held:
        return None
    text = folded(transcript(context.messages))
    return sum(one in text for one in held) / len(held)

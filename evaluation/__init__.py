"""How well a strategy keeps the goal of a conversation while it shortens the context."""

from .metrics import MetricsCollector, measure_salience_accuracy
from .selective_salience import SelectiveSalienceState, SelectiveSalienceStrategy

__all__ = [
    "MetricsCollector",
    "SelectiveSalienceState",
    "SelectiveSalienceStrategy",
    "measure_salience_accuracy",
]

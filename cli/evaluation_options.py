"""The options of `ebbtide eval`."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ..evaluation.strategies import OURS, STRATEGIES
from ..evaluation.templates import shipped

Strategies: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        help=f"Of {', '.join(STRATEGIES)}; may be repeated (default: the first {len(OURS)}).",
    ),
]
Templates: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--template",
        help=f"Of {', '.join(shipped())}, or a file; may be repeated (default: all of these).",
    ),
]
Answering: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", help="Compresses and answers; such as openai:gpt-5-mini, or offline."),
]
Judging: TypeAlias = Annotated[
    str | None, typer.Option("--judge", help="Scores the answers (default: the model), or off.")
]
Trials: TypeAlias = Annotated[
    int | None, typer.Option("--trials", min=1, max=1_000, help="How many of each (default: 1).")
]
Out: TypeAlias = Annotated[Path, typer.Option("--out", help="Folder of the results.")]
Embedding: TypeAlias = Annotated[
    str | None,
    typer.Option("--embeddings", help="Compares quotes by meaning: minilm (default: by letters)."),
]
Prices: TypeAlias = Annotated[
    str | None,
    typer.Option("--prices", help="Dollars per million tokens read and written: 0.25,2.00."),
]
Concurrency: TypeAlias = Annotated[
    int, typer.Option("--concurrency", min=1, max=64, help="How many trials run at once.")
]
Record: TypeAlias = Annotated[
    Path | None, typer.Option("--record", help="Write all answers into this file.")
]
Replay: TypeAlias = Annotated[
    Path | None, typer.Option("--replay", help="Take all answers from this file: no measurement.")
]

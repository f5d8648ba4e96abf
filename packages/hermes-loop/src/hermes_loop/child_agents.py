"""The agents that an agent's tools may make: each does a part of its work and sees nothing of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from hermes_loop.options import AgentOptions
from hermes_loop.routes import Routes
from hermes_messages import ConfigurationError
from hermes_messages.protocols import Agent, AgentFactory, AgentRequest, SessionStore

__all__ = ["ChildAgents"]


@dataclass(frozen=True, slots=True)
class ChildAgents:
    """Makes agents on what their parent has open: its routes, its store and, if it was given one, its
    iteration budget. Settings, hooks and the callbacks for approval and questions are the parent's, so that
    what guards its tools guards theirs; the conversation, the memory and the stream are not."""

    options: AgentOptions
    routes: Routes
    store: SessionStore | None

    async def open(self) -> None:
        """Everything is open as long as the parent is."""

    def create_agent(self, request: AgentRequest) -> Agent:
        """A new agent. Raises `ConfigurationError`."""
        from hermes_loop.agent import AIAgent  # the agent's own module leads here

        options = self.options
        control = options.compression
        primary, *others = self.routes
        overrides = None if options.extra_body is None else msgspec.json.decode(options.extra_body)
        return AIAgent(
            provider=None if options.runtime is not None else primary.provider,
            runtime=options.runtime,
            model=primary.model,
            fallback_models=[{"provider": route.provider, "model": route.model} for route in others],
            tools=options.tools if isinstance(options.tools, tuple) else None,
            max_iterations=request.max_iterations or options.max_iterations,
            iteration_budget=options.iteration_budget,
            budget=options.budget,
            compression=False if control is None else control.settings,
            compressor=None if control is None else control.compressor,
            enabled_toolsets=self._toolsets(request),
            disabled_toolsets=options.disabled_toolsets,
            session_id=request.session_id,
            session_db=self.store,
            ephemeral_system_prompt=options.ephemeral_system_prompt,
            system_prompt=request.system_prompt or options.system_prompt,
            identity=options.identity,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            reasoning_effort=options.reasoning_effort,
            request_overrides=overrides,
            cwd=request.cwd,
            hooks=options.hooks,
            skip_memory=True,
            context_files=options.context_files,
            tool_settings=options.tool_settings,
            mcp_servers=options.mcp_servers,
            approval_policy=options.approval_policy,
            checkpoints_enabled=options.checkpoints_enabled,
            source=request.source,
            session_metadata=request.metadata,
            clarify_callback=options.callbacks.clarify,
            approval_callback=options.callbacks.approval,
        )

    def _toolsets(self, request: AgentRequest) -> tuple[str, ...]:
        """It is often a model that names them; it can not hand on what its agent was not given."""
        enabled = self.options.enabled_toolsets
        if request.toolsets is None:
            return enabled
        refused = [name for name in request.toolsets if name not in enabled]
        if refused and "all" not in enabled:
            raise ConfigurationError(
                f"a child agent can not have toolsets {', '.join(refused)}: its parent was not given them; "
                f"it can have: {', '.join(enabled) or 'none'}"
            )
        return request.toolsets

    async def close(self) -> None:
        """What is shared is the parent's to close."""


if TYPE_CHECKING:

    def _fits(children: ChildAgents) -> AgentFactory:
        return children

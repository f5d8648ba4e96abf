"""The provider, executor and store of one agent: made from names, opened once, closed if they are its own."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from hermes_loop.child_agents import ChildAgents
from hermes_loop.clock import SystemClock
from hermes_loop.discovery import make_executor, make_hook, make_store
from hermes_loop.hooks import Hooks, check_hook, collect_hooks
from hermes_loop.idle import as_idle
from hermes_loop.no_tools import NoTools
from hermes_loop.options import AgentOptions
from hermes_loop.route_making import make_routes
from hermes_loop.routes import Routes
from hermes_loop.shielding import DEFAULT_BOUNDS, Bounds, finish_despite_cancel
from hermes_loop.steering import Steering
from hermes_loop.turn_state import ModelSettings, TurnDeps, TurnLimits
from hermes_messages import ProviderError
from hermes_messages.protocols import (
    ExecutorOptions,
    SessionStore,
    ToolExecutor,
)

__all__ = ["Wiring"]

EXECUTOR: Final = "the tool executor"

logger: logging.Logger = logging.getLogger(__name__)


_SPREAD = random.Random()  # noqa: S311 - spreads retries, guards nothing


class Wiring:
    """What an agent runs on. Objects of the host's are opened, which does nothing twice, and never closed."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._executor: ToolExecutor | None = None
        self._store: SessionStore | None = None
        self._routes: Routes | None = None
        self._hooks = Hooks()
        self._deps: TurnDeps | None = None
        self._owned: list[tuple[str, Callable[[], Awaitable[None]]]] = []

    def label(self, session_id: str) -> str:
        """How warnings name the agent."""
        return self._options.label(session_id)

    @property
    def cwd(self) -> str:
        """Where tools start."""
        return self._options.cwd if self._options.cwd is not None else os.getcwd()  # noqa: PTH109 - a string

    @property
    def executor(self) -> ToolExecutor:
        """The executor, once open."""
        assert self._executor is not None
        return self._executor

    @property
    def store(self) -> SessionStore | None:
        """The store, if there is one."""
        return self._store

    @property
    def routes(self) -> Routes:
        """Where requests go, once open."""
        assert self._routes is not None
        return self._routes

    def turn_deps(self, steering: Steering, bounds: Bounds) -> TurnDeps:
        """What a turn is given to work with: the same for all turns, as long as the working directory is."""
        cwd = self.cwd
        if self._deps is None or self._deps.cwd != cwd:
            self._deps = self._make_deps(steering, bounds, cwd)
        return self._deps

    def _make_deps(self, steering: Steering, bounds: Bounds, cwd: str) -> TurnDeps:
        options = self._options
        return TurnDeps(
            routes=self.routes,
            executor=self.executor,
            store=self.store,
            agent_factory=ChildAgents(options, self.routes, self.store),
            callbacks=options.callbacks,
            hooks=self._hooks,
            steering=steering,
            settings=ModelSettings(
                max_tokens=options.max_tokens,
                temperature=options.temperature,
                seed=options.seed,
                reasoning_effort=options.reasoning_effort,
                extra_body=options.extra_body,
                output=options.output,
            ),
            session_info=options.session_info,
            cwd=cwd,
            system_prompt=options.system_prompt,
            identity=options.identity,
            ephemeral_system_prompt=options.ephemeral_system_prompt,
            context_files=options.context_files,
            prefill=options.prefill,
            trajectory_dir=options.trajectory_dir,
            compression=options.compression,
            runtime=options.runtime,
            rerun_idempotent=options.rerun_idempotent,
            idle=as_idle(self.executor),
            limits=TurnLimits(max_iterations=options.max_iterations),
            bounds=bounds,
            clock=SystemClock(),
            rng=_SPREAD,
        )

    async def open(self) -> None:
        """Make what is named, then open it. After a failure or a cancellation nothing is left open."""
        try:
            self._make()
            await self._open_primary()
            await self.executor.open()
        except BaseException:
            await self.close()
            raise

    async def reopen(self) -> None:
        """Open again what an event loop that is gone had opened."""
        self.routes.forget_opened()
        await self._open_primary()
        await self.executor.open()

    async def close(self) -> list[str]:
        """Close what is owned, each on its own, whoever cancels meanwhile; what went wrong. Idempotent."""
        owned, self._owned = self._owned, []
        instant = self._closes_at_once(owned)
        self._executor = self._store = self._routes = self._deps = None
        errors: list[str] = []
        if instant:
            await _close_all(owned, errors)
        elif owned:
            try:
                await finish_despite_cancel(lambda: _close_all(owned, errors), DEFAULT_BOUNDS)
            except TimeoutError:
                errors.append("closing took too long and was given up")
        for error in errors:
            logger.warning("closing the agent: %s", error)
        return errors

    def _closes_at_once(self, owned: Sequence[tuple[str, object]]) -> bool:
        """Whether all that is owned is an executor that has nothing to wait for."""
        if [name for name, _ in owned] != [EXECUTOR]:
            return False
        idle = as_idle(self._executor)
        return idle is not None and idle.is_idle()

    async def _open_primary(self) -> None:
        """A primary route that can not be opened is one that failed, where there is another."""
        routes = self.routes
        try:
            await routes.open(routes.primary)
        except ProviderError as error:
            if not routes.several:
                raise
            logger.warning("the route %s could not be opened: %s", routes.primary.label, error)

    def _make(self) -> None:
        options = self._options
        self._routes = make_routes(options, lambda provider: self._own("the provider", provider.close))
        self._hooks = collect_hooks(self._make_hooks(), skip_memory=options.skip_memory)
        self._executor = self._make_executor(self._routes)
        if isinstance(options.session_db, str):
            self._store = make_store(options.session_db)
            self._own("the session store", self._store.close)
        else:
            self._store = options.session_db

    def _make_hooks(self) -> list[object]:
        hooks: list[object] = []
        for given in self._options.hooks:
            hook = make_hook(given) if isinstance(given, str) else given
            check_hook(hook)
            hooks.append(hook)
        return hooks

    def _make_executor(self, routes: Routes) -> ToolExecutor:
        options = self._options
        if options.tools is not None and not isinstance(options.tools, tuple):
            return options.tools
        if not options.tools and not options.enabled_toolsets and not options.mcp_servers:
            return NoTools()
        settings = dict(options.tool_settings)
        if options.mcp_servers:
            settings["mcp_servers"] = dict(options.mcp_servers)
        if options.approval_policy:
            settings["approval_policy"] = dict(options.approval_policy)
        if options.checkpoints_enabled:
            settings["checkpoints"] = True
        executor = make_executor(
            options.enabled_toolsets,
            ExecutorOptions(
                cwd=self.cwd,
                disabled_toolsets=options.disabled_toolsets,
                own_tools=options.tools or (),
                settings=settings,
                secrets=routes.secrets(),
            ),
        )
        self._own(EXECUTOR, executor.close)
        return executor

    def _own(self, name: str, close: Callable[[], Awaitable[None]]) -> None:
        self._owned.insert(0, (name, close))


async def _close_all(owned: list[tuple[str, Callable[[], Awaitable[None]]]], errors: list[str]) -> None:
    """Idempotent: what was closed is taken off the list."""
    while owned:
        name, close = owned[0]
        try:
            await close()
        except Exception as error:  # noqa: BLE001 - one that fails must not keep the others open; it is logged
            errors.append(f"{name}: {type(error).__name__}: {error}")
        owned.pop(0)

"""This library: agents that share one provider, over either engine; its own `BatchRunner` for the batch.

    python -m contest.hermes_layers httpx|aiohttp|sqlite WORK http://127.0.0.1:PORT

`sqlite` is the engine httpx and a store in a file, which all agents share.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from contest.work import TOOL, TOOL_ANSWER, Agent, Agents, past_texts, take_part

from hermes_loop import AIAgent
from hermes_messages import JsonValue
from hermes_messages.protocols import ConversationResult, Provider, ProviderOptions, SessionStore
from hermes_providers import from_profile
from hermes_tools import tool


@tool
async def look() -> str:
    """Look."""
    return TOOL_ANSWER


class Layers:
    """Agents over one provider."""

    def __init__(self, base_url: str, connections: int, variant: str) -> None:
        self._home = tempfile.TemporaryDirectory()
        self._store = new_store(Path(self._home.name, "state.db")) if variant == "sqlite" else None
        engine = "httpx" if variant == "sqlite" else variant
        settings: dict[str, JsonValue] = {
            "engine": engine,
            "keep_alive": True,
            "max_connections": connections,
        }
        self._base_url, self._settings = base_url, settings
        self._provider = from_profile("custom", ProviderOptions(base_url=base_url, settings=settings))

    def new(self, past: int = 0) -> Agent:
        """An `AIAgent` with one tool."""
        return OneAgent(self._provider, self._store, past)

    async def batch(self, samples: int, workers: int) -> None:
        """The batch runner with all that it writes, from rows to `trajectories.jsonl`."""
        from hermes_batch import BatchRunner
        from hermes_batch.agent_options import AgentOptions

        with tempfile.TemporaryDirectory() as folder:
            rows = "".join(json.dumps({"prompt": f"Look, {n}."}) + "\n" for n in range(samples))
            Path(folder, "rows.jsonl").write_text(rows, "utf-8")  # noqa: ASYNC240 - nothing else runs yet
            done = await BatchRunner(
                Path(folder, "rows.jsonl"),
                run_name="bench",
                output_dir=folder,
                toolsets=["todo"],
                agent_factory=AgentOptions(
                    toolsets=("todo",),
                    state_db=None if self._store is None else Path(folder, "state.db"),
                    base_url=self._base_url.replace(f"/{TOOL}/", "/todo/"),
                    api_key="none",
                    model="bench",
                    provider_settings=self._settings,
                ),
                num_workers=workers,
                require_reasoning=False,
            ).run()
            assert done.ok == samples, done

    async def close(self) -> None:
        """Close the provider and the store."""
        await self._provider.close()
        if self._store is not None:
            await self._store.close()
        self._home.cleanup()


class OneAgent:
    """An `AIAgent`."""

    def __init__(self, provider: Provider, store: SessionStore | None, past: int) -> None:
        self._past = [{"role": role, "content": text} for role, text in past_texts(past)]
        self._agent = AIAgent(
            provider=provider, model="bench", tools=[look], max_iterations=30, session_db=store
        )

    async def turn(self, asked: str) -> str:
        """A conversation that begins anew."""
        return final(await self._agent.run_conversation(asked, conversation_history=[]))

    async def more(self, asked: str) -> str:
        """The next turn; the first one is given the past."""
        past, self._past = self._past, []
        return final(await self._agent.run_conversation(asked, conversation_history=past or None))

    async def close(self) -> None:
        """Close the agent; its provider goes on."""
        await self._agent.close()


def new_store(path: Path) -> SessionStore:
    """Its wheel is imported only where there is a store."""
    from hermes_store import SessionDB

    return SessionDB(path)


def final(result: ConversationResult) -> str:
    """The text, or an error that tells more than its lack."""
    assert result["final_response"] is not None, result["error"]
    return result["final_response"]


def open_agents(base_url: str, connections: int) -> Agents:
    """In the variant that the command line names."""
    return Layers(base_url, connections, variant)


if __name__ == "__main__":
    variant = sys.argv.pop(1)
    take_part(open_agents)

"""Where the time of a turn goes: layer by layer, with what the event loop is asked to do, and a profile.

    uv run benchmarks/profile_turn.py                       # CPU of each layer in each scenario, alternating
    uv run benchmarks/profile_turn.py rounds history        # in these scenarios only
    uv run benchmarks/profile_turn.py --profile text agent  # one of them under cProfile
    uv run benchmarks/profile_turn.py --count text agent    # how many instructions (needs valgrind)

A scenario is one turn, repeated; a layer is who does it: `agent` (loop, tools, provider, sockets), `double`
(loop and tools over a provider that answers from memory), `provider` (provider and sockets alone), `bare`
(the same requests by hand, as in `floor.py`), all over httpx; with `aiohttp-` before them over that. The
server is a process of its own that answers at once.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from floor import SENDERS, FloorAgent

from hermes_loop import AIAgent
from hermes_messages import (
    ChatRequest,
    ChatResponse,
    FinishReason,
    JsonObject,
    MessageLog,
    ModelInfo,
    ResponseDone,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolSpec,
    UserMessage,
    messages_from_dicts,
)
from hermes_messages.messages import AssistantMessage
from hermes_messages.parts import Origin
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_messages.usage import Usage
from hermes_providers import from_profile
from hermes_tools import tool

ROUNDS = 7
REPEATS = 200

SERVER = """
import asyncio, json
def event(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "r", "model": "bench", "choices": [choice]}).encode() + b"\\n\\n"
usage = {"id": "r", "model": "bench", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
USAGE = b"data: " + json.dumps(usage).encode() + b"\\n\\n"
def answer(*events):
    body = b"".join(events) + USAGE + b"data: [DONE]\\n\\n"
    head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
    return head + b"%x\\r\\n%b\\r\\n0\\r\\n\\r\\n" % (len(body), body)
call = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
CALL = answer(event({"tool_calls": [call]}), event({}, "tool_calls"))
TEXT = answer(event({"content": "All is "}), event({"content": "well."}), event({}, "stop"))
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            rounds = int(head.split(b"/")[1])
            size = int(head.split(b"content-length:")[1].split(b"\\r\\n")[0])
            body = await reader.readexactly(size)
            asked = body.rindex(b'"role":"user"')
            writer.write(TEXT if body.count(b'"role":"tool"', asked) >= rounds else CALL)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

LOOK: JsonObject = {"type": "object", "properties": {}}
CALLED = ToolCall("call_1", "look", "{}")
Turn = Callable[[], Awaitable[None]]


def long_history(count: int) -> list[JsonObject]:
    """A conversation of so many messages, a third of them of tool rounds."""
    messages: list[JsonObject] = []
    for number in range(count // 4):
        call: JsonObject = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "look", "arguments": '{"path": "src/main.py", "limit": 200}'},
        }
        messages += [
            {"role": "user", "content": f"Question {number}: " + "why is that so? " * 8},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": "def main() -> None: ...\n" * 30},
            {"role": "assistant", "content": "Because of this. " * 10},
        ]
    return messages


@tool
async def look() -> str:
    """Look."""
    return "nothing new"


class Double:
    """A provider that answers from memory: `rounds` calls after each user message, then text."""

    name = "double"
    default_model = "bench"

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._origin = Origin("double", "memory", "bench")
        usage = Usage(input_tokens=9, output_tokens=4)
        text = AssistantMessage("All is well.", finish_reason="stop")
        called = AssistantMessage(None, (CALLED,), finish_reason="tool_calls")
        self._text = ResponseDone(ChatResponse(message=text, finish=FinishReason.STOP, usage=usage))
        self._called = ResponseDone(ChatResponse(message=called, finish=FinishReason.TOOL_CALLS, usage=usage))

    def origin(self, model: str) -> Origin:  # noqa: ARG002 - the Protocol's
        return self._origin

    def model_info(self, model: str) -> ModelInfo:  # noqa: ARG002 - the Protocol's
        return ModelInfo()

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent, None]:
        behind = 0
        while not isinstance(request.history[-1 - 2 * behind], UserMessage):
            behind += 1
        if behind < self._rounds:
            yield ToolCallStarted(0, "call_1", "look")
            yield self._called
        else:
            yield TextDelta("All is ")
            yield TextDelta("well.")
            yield self._text


class Scenario(msgspec.Struct, frozen=True):
    """Turns of `rounds` tool calls and one text; `new`: each has an agent of its own. With a `history`, the
    turns go on with a conversation of so many messages; without, each begins one."""

    rounds: int
    new: bool
    repeats: int = REPEATS
    history: int = 0

    @property
    def calls(self) -> int:
        return self.rounds + 1


SCENARIOS = {
    "text": Scenario(0, new=False),
    "text-new": Scenario(0, new=True),
    "short": Scenario(3, new=True, repeats=50),
    "rounds": Scenario(20, new=True, repeats=20),
    "history": Scenario(0, new=False, repeats=40, history=4_000),
}


def turn_of_agents(scenario: Scenario, provider: Provider) -> tuple[Turn, Callable[[], Awaitable[None]]]:
    """One turn of an agent over `provider`, and how to end it all."""
    tools = [look] if scenario.rounds else None
    kept = AIAgent(provider=provider, model="bench", tools=tools)
    given: list[JsonObject] | None = long_history(scenario.history) if not scenario.new else None

    async def turn() -> None:
        nonlocal given
        agent = AIAgent(provider=provider, model="bench", tools=tools) if scenario.new else kept
        result = await agent.run_conversation("Look around.", conversation_history=given)
        if scenario.history:
            given = None
        assert result["final_response"] == "All is well.", result
        if scenario.new:
            await agent.close()

    return turn, kept.close


def http_provider(base_url: str, engine: str) -> Provider:
    return from_profile(
        "custom", ProviderOptions(base_url=base_url, settings={"engine": engine, "keep_alive": True})
    )


async def agent_layer(scenario: Scenario, base_url: str, engine: str = "httpx") -> tuple[Turn, Turn]:
    provider = http_provider(base_url, engine)
    turn, close = turn_of_agents(scenario, provider)

    async def end() -> None:
        await close()
        await provider.close()

    return turn, end


async def double_layer(scenario: Scenario, base_url: str) -> tuple[Turn, Turn]:  # noqa: ARG001 - as the others
    return turn_of_agents(scenario, Double(scenario.rounds))


async def provider_layer(scenario: Scenario, base_url: str, engine: str = "httpx") -> tuple[Turn, Turn]:
    provider = http_provider(base_url, engine)
    tools = (ToolSpec.from_schema("look", "Look.", LOOK),)
    kept = MessageLog(messages_from_dicts(long_history(scenario.history)))

    async def turn() -> None:
        log = kept if scenario.history else MessageLog()
        log.append(UserMessage("Look around."))
        while True:
            request = ChatRequest(model="bench", history=log.view(), tools=tools if scenario.rounds else ())
            answer = None
            async for event in provider.stream(request):
                if isinstance(event, ResponseDone):
                    answer = event.response.message
            assert answer is not None
            log.append(answer)
            if not answer.tool_calls:
                break
            log.append(ToolMessage("call_1", "nothing new"))

    return turn, provider.close


async def bare_layer(scenario: Scenario, base_url: str, engine: str = "httpx") -> tuple[Turn, Turn]:
    """The least by hand, as in `floor.py`: each message is encoded once, each event decoded into one typed
    struct."""
    sender = SENDERS[engine](base_url, 16)
    agent = FloorAgent(sender, scenario.history)

    async def turn() -> None:
        text = await (agent.more("Look around.") if scenario.history else agent.turn("Look around."))
        assert text == "All is well."

    return turn, sender.close


LAYERS: dict[str, Callable[[Scenario, str], Awaitable[tuple[Turn, Turn]]]] = {
    "bare": bare_layer,
    "provider": provider_layer,
    "double": double_layer,
    "agent": agent_layer,
    "aiohttp-bare": lambda scenario, base_url: bare_layer(scenario, base_url, "aiohttp"),
    "aiohttp-provider": lambda scenario, base_url: provider_layer(scenario, base_url, "aiohttp"),
    "aiohttp-agent": lambda scenario, base_url: agent_layer(scenario, base_url, "aiohttp"),
}


class Asked:
    """What the event loop was asked to do meanwhile."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.counts = {"tasks": 0, "timers": 0, "callbacks": 0}
        self._count(loop, "create_task", "tasks")
        self._count(loop, "call_at", "timers")
        self._count(loop, "call_soon", "callbacks")

    def _count(self, loop: asyncio.AbstractEventLoop, method: str, what: str) -> None:
        real: Callable[..., object] = getattr(loop, method)

        def counted(*args: object, **kwargs: object) -> object:
            self.counts[what] += 1
            return real(*args, **kwargs)

        setattr(loop, method, counted)


async def timed(scenario: Scenario, layer: str, base_url: str) -> tuple[float, float]:
    """Seconds of wall and of CPU for one call of the model, in turns of the quickest tenth: in the others,
    other processes were in the way."""
    turn, end = await LAYERS[layer](scenario, base_url)
    walls, cpus = [], []
    for _ in range(3 + scenario.repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        await turn()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    await end()
    return quickest_tenth(walls) / scenario.calls, quickest_tenth(cpus) / scenario.calls


def quickest_tenth(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[0]


async def asked(scenario: Scenario, layer: str, base_url: str) -> dict[str, float]:
    turn, end = await LAYERS[layer](scenario, base_url)
    await turn()
    counting = Asked()
    for _ in range(10):
        await turn()
    counts = {what: count / 10 / scenario.calls for what, count in counting.counts.items()}
    await end()
    return counts


async def profiled(scenario: Scenario, layer: str, base_url: str) -> None:
    turn, end = await LAYERS[layer](scenario, base_url)
    for _ in range(3):
        await turn()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(scenario.repeats):
        await turn()
    profile.disable()
    await end()
    statistic = pstats.Stats(profile)
    calls = sum(entry.callcount for entry in profile.getstats()) / scenario.repeats / scenario.calls
    print(f"function calls for one call of the model: {calls:,.0f}")
    statistic.sort_stats("tottime").print_stats(60)


async def worked(scenario: Scenario, layer: str, base_url: str, turns: int) -> None:
    turn, end = await LAYERS[layer](scenario, base_url)
    for _ in range(2 + turns):
        await turn()
    await end()


def instructions(name: str, layer: str, base_url: str, turns: int) -> int:
    """How many instructions the process takes for so many turns and its start."""
    with TemporaryDirectory() as directory:
        out = Path(directory, "out")
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={out}"]
        command += [sys.executable, __file__, "--work", name, layer, base_url, str(turns)]
        subprocess.run(command, check=True, capture_output=True, env={"PYTHONHASHSEED": "0"})
        summary = next(line for line in out.read_text().splitlines() if line.startswith("summary:"))
    return int(summary.split()[1])


def compare(port: str, only: list[str]) -> None:
    for name, scenario in SCENARIOS.items():
        if only and name not in only:
            continue
        base_url = f"http://127.0.0.1:{port}/{scenario.rounds}/v1"
        runs: dict[str, list[tuple[float, float]]] = {layer: [] for layer in LAYERS}
        for _ in range(ROUNDS):
            for layer, figures in runs.items():
                figures.append(asyncio.run(timed(scenario, layer, base_url)))
        bare_wall = statistics.median(wall for wall, _ in runs["bare"])
        bare_cpu = statistics.median(cpu for _, cpu in runs["bare"])
        print(f"{name}: for each call of the model")
        for layer, figures in runs.items():
            wall = statistics.median(wall for wall, _ in figures)
            cpu = statistics.median(cpu for _, cpu in figures)
            counts = asyncio.run(asked(scenario, layer, base_url))
            told = ", ".join(f"{count:.1f} {what}" for what, count in counts.items())
            print(
                f"  {layer:16} wall {wall * 1e6:6.0f} us ({wall / bare_wall:.2f})  "
                f"CPU {cpu * 1e6:6.0f} us ({cpu / bare_cpu:.2f})  {told}"
            )


def main(arguments: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            match arguments:
                case ["--count", name, layer]:
                    scenario = SCENARIOS[name]
                    base_url = f"http://127.0.0.1:{port}/{scenario.rounds}/v1"
                    turns = 100 // scenario.calls
                    more = instructions(name, layer, base_url, turns) - instructions(name, layer, base_url, 0)
                    print(f"{name} {layer}: {more / turns / scenario.calls:,.0f} instructions for each call")
                case ["--profile", name, layer]:
                    scenario = SCENARIOS[name]
                    base_url = f"http://127.0.0.1:{port}/{scenario.rounds}/v1"
                    asyncio.run(profiled(scenario, layer, base_url))
                case only:
                    compare(port, only)
        finally:
            server.kill()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--work", name, layer, base_url, turns]:
            asyncio.run(worked(SCENARIOS[name], layer, base_url, int(turns)))
        case arguments:
            main(arguments)

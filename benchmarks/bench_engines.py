"""Many agents at once over one local server: our engines against bare clients doing the same requests.

Run with `uv run benchmarks/bench_engines.py`. A server in a process of its own answers each request after 50
ms with a stream: three times a tool call, then text. Each contestant runs in a process of its own: agents
with one shared provider over either engine, or the least that can be done by hand, one client shared by as
many tasks. The wall of one shared `httpx.AsyncClient` with `json` is 1.0. 200 agents run, which are enough to
tell; give other counts as arguments (1,000 are a row of `bench_contest.py`).
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine

import msgspec

CALLS = 4
PAUSE_S = 0.05
AGENTS = (200,)
ROUNDS = 3

SERVER = """
import asyncio, json, resource, sys
pause = float(sys.argv[1])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def event(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "r", "model": "bench", "choices": [choice]}).encode() + b"\\n\\n"
def answer(*events):
    body = b"".join(events) + b"data: [DONE]\\n\\n"
    head = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"
    return head + b"%x\\r\\n%b\\r\\n0\\r\\n\\r\\n" % (len(body), body)
call = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
CALL = answer(event({"tool_calls": [call]}), event({}, "tool_calls"))
TEXT = answer(event({"content": "All is "}), event({"content": "well."}), event({}, "stop"))
def rounds(body):
    return body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\\r\\n\\r\\n")).lower()
            size = int(head.split(b"content-length:")[1].split(b"\\r\\n")[0])
            body = await reader.readexactly(size)
            await asyncio.sleep(pause)
            writer.write(TEXT if rounds(body) >= 3 else CALL)
            if b"connection: close" in head:
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}


class Figures(msgspec.Struct):
    """What one contestant took: seconds, and memory at its peak in kB for each agent."""

    wall_s: float
    cpu_s: float
    memory_kb: float


async def measured(count: int, one: Callable[[], Awaitable[None]], since: int) -> Figures:
    """The figures of `count` times `one` at once."""
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(count)))
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Figures(wall, cpu, (_peak_kb() - since) / count)


async def agents(base_url: str, count: int, engine: str) -> Figures:
    """Agents of the library that share one provider."""
    from hermes_loop import AIAgent
    from hermes_messages import JsonValue
    from hermes_messages.protocols import ProviderOptions
    from hermes_providers import from_profile
    from hermes_tools import tool

    @tool
    async def look() -> str:
        """Look."""
        return "nothing new"

    settings: dict[str, JsonValue] = {"engine": engine, "keep_alive": True, "max_connections": count}
    provider = from_profile("custom", ProviderOptions(base_url=base_url, settings=settings))
    alive = []

    async def one(asked: str = "Look three times.") -> None:
        agent = AIAgent(provider=provider, model="bench", tools=[look])
        alive.append(agent)
        result = await agent.run_conversation(asked)
        assert result["final_response"] == "All is well.", result
        assert result["api_calls"] == CALLS

    await one()  # imports and caches
    figures = await measured(count, one, _peak_kb())
    for agent in alive:
        await agent.close()
    await provider.close()
    return figures


async def by_hand(read: Callable[[list[object]], Awaitable[str]]) -> None:
    """The requests of one conversation, with `json` and nothing else."""
    messages: list[object] = [{"role": "user", "content": "Look three times."}]
    for number in range(CALLS):
        text, calls = "", 0
        for line in (await read(messages)).split("\n"):
            if line.startswith("data: {"):
                delta = json.loads(line[6:])["choices"][0]["delta"]
                text += delta.get("content") or ""
                calls += len(delta.get("tool_calls", ()))
        if number == CALLS - 1:
            assert (text, calls) == ("All is well.", 0)
            break
        call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": "nothing new"})


async def bare_httpx(base_url: str, count: int) -> Figures:
    """One shared httpx client."""
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:

        async def read(messages: list[object]) -> str:
            body = {"model": "bench", "stream": True, "messages": messages, "tools": [TOOL]}
            text = ""
            async with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
                async for piece in response.aiter_text():
                    text += piece
            return text

        await by_hand(read)
        return await measured(count, lambda: by_hand(read), _peak_kb())


async def bare_aiohttp(base_url: str, count: int) -> Figures:
    """One shared aiohttp session."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def read(messages: list[object]) -> str:
            body = {"model": "bench", "stream": True, "messages": messages, "tools": [TOOL]}
            data = b""
            async with session.post(f"{base_url}/chat/completions", json=body) as response:
                async for piece in response.content.iter_any():
                    data += piece
            return data.decode()

        await by_hand(read)
        return await measured(count, lambda: by_hand(read), _peak_kb())


CONTESTANTS: dict[str, Callable[[str, int], Coroutine[None, None, Figures]]] = {
    "bare httpx, shared client": bare_httpx,
    "bare aiohttp, shared session": bare_aiohttp,
    "agents, default engine": lambda url, count: agents(url, count, "httpx"),
    "agents, engine aiohttp": lambda url, count: agents(url, count, "aiohttp"),
}
TARGETS = {
    ("agents, default engine", 200): 0.16,
    ("agents, engine aiohttp", 200): 0.08,
    ("agents, default engine", 1_000): 0.2,
    ("agents, engine aiohttp", 1_000): 0.08,
}


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def allow_many_files() -> None:
    """As many open sockets as the machine lets us have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def in_a_process(name: str, base_url: str, count: int) -> Figures:
    """The figures of a contestant that has a process for itself."""
    command = [sys.executable, __file__, "--run", name, base_url, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Figures)


def compare(base_url: str, count: int) -> None:
    """Print the table for `count` agents. Contestants alternate; medians count."""
    rounds = ROUNDS if count <= 200 else 1
    runs: dict[str, list[Figures]] = {name: [] for name in CONTESTANTS}
    for _ in range(rounds):
        for name, figures in runs.items():
            figures.append(in_a_process(name, base_url, count))
    walls = {name: statistics.median(one.wall_s for one in figures) for name, figures in runs.items()}
    base = walls["bare httpx, shared client"]
    print(f"{count:,} agents x {CALLS} calls, {PAUSE_S * 1e3:.0f} ms each; ideal {CALLS * PAUSE_S:.1f} s")
    for name, figures in runs.items():
        target = TARGETS.get((name, count))
        aim = "" if target is None else f" (target {target})"
        cpu = statistics.median(one.cpu_s for one in figures)
        memory = statistics.median(one.memory_kb for one in figures)
        print(
            f"  {name:30} wall {walls[name]:7.2f} s, CPU {cpu:7.2f} s, ratio {walls[name] / base:6.3f}{aim}"
            f", {memory:5.0f} kB for each"
        )


def main(counts: tuple[int, ...]) -> None:
    """All tables, over one server."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(PAUSE_S)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            base_url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
            for count in counts:
                compare(base_url, count)
        finally:
            server.kill()


if __name__ == "__main__":
    allow_many_files()
    match sys.argv[1:]:
        case ["--run", name, base_url, count]:
            with asyncio.Runner() as runner:
                taken: Figures = runner.run(CONTESTANTS[name](base_url, int(count)))
            print(msgspec.json.encode(taken).decode())
        case counts:
            main(tuple(map(int, counts)) or AGENTS)

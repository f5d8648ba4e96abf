"""Scale: thousands of agents on one event loop, and one turn of ten thousand calls.

Run with `uv run benchmarks/bench_scale.py [AGENTS ...]`. The host is simulated behind the transport seam of
the provider: it answers after a second of waiting, without sockets, so that limits on files and on loopback
do not count; all of ours between `run_conversation` and the bytes of the request is real.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from contest import server

from hermes_loop import AIAgent
from hermes_messages.protocols import Provider, ProviderOptions
from hermes_providers import from_profile
from hermes_providers.timeouts import StreamClock, Timeouts
from hermes_providers.transport import HttpOptions, make_transport
from hermes_tools import tool

AGENTS = (100, 1_000, 10_000)
ROUNDS = 2
PAUSE_S = 1.0
CALLS = 10_000
SELDOM = (50_000, 20, 50)
"""Of the garbage collector: Python's own are 700, 10, 10."""
WINDOW = 100
BODIES = (10_000, 1_000_000)
SENDS = 50
SERVER = Path(__file__).resolve().parent / "contest" / "server.py"
ADDRESS = "/0/0/1/look/v1/chat/completions"


class Asked(NamedTuple):
    """A request: the CPU time at which it came, that at which its answer was ready, its size in bytes."""

    came: float
    ready: float
    size: int


class Ready:
    """An answer that is there as a whole."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks[::-1]

    async def read(self, _clock: StreamClock) -> bytes:
        return self._chunks.pop() if self._chunks else b""


class Simulated:
    """A host that waits, then asks for a tool so many times, then answers; it notes when it is asked, and how
    often by each task. At the request number `look_at` it calls `look`."""

    def __init__(self, rounds: int, pause_s: float) -> None:
        self._rounds = rounds
        self._pause_s = pause_s
        self.asked: list[Asked] = []
        self.overdue: list[float] = []
        self.calls: Counter[object] = Counter()
        self.came = 0
        self.look_at = 0
        self.look: Callable[[], object] = int

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @asynccontextmanager
    async def post(
        self, _url: str, _headers: Mapping[str, str], body: bytes, _clock: StreamClock
    ) -> AsyncIterator[Ready]:
        at = time.process_time()
        self.calls[asyncio.current_task()] += 1
        self.came += 1
        if self.came == self.look_at:
            self.look()
        done = calls_answered(body)
        if self._pause_s:
            due = time.perf_counter() + self._pause_s
            await asyncio.sleep(self._pause_s)
            self.overdue.append(time.perf_counter() - due)
        script = server.Script(0.0, self._rounds, 5, "look")
        self.asked.append(Asked(at, time.process_time(), len(body)))
        yield Ready(server.events(script, calling=done < self._rounds, number=done))


def calls_answered(body: bytes) -> int:
    """From the number of the last call: reading a long body would cost as much as making it."""
    found = body.rfind(b'"tool_call_id":"call_')
    return 0 if found < 0 else int(body[found + 21 : body.index(b'"', found + 21)]) + 1


@tool
async def look() -> str:
    """Look."""
    return "nothing new"


def over(host: Simulated) -> Provider:
    return from_profile("custom", ProviderOptions(base_url="http://simulated/v1"), transport=host)


def agent_over(provider: Provider) -> AIAgent:
    return AIAgent(provider=provider, model="bench", tools=[look], max_iterations=2 * CALLS)


def memory_kb() -> int:
    """What this process holds now."""
    gc.collect()
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


class Crowd(msgspec.Struct):
    """Memory in kB for each agent: before its turn, within it and after it. CPU in seconds for each call, and
    how much of that the garbage collector took. How many calls the last agent had made when the first was
    done. Lateness in seconds."""

    idle_kb: float = 0.0
    active_kb: float = 0.0
    ended_kb: float = 0.0
    cpu_s: float = 0.0
    collector_s: float = 0.0
    wall_s: float = 0.0
    fewest_calls: int = 0
    late_median_s: float = 0.0
    late_worst_s: float = 0.0


async def crowd(count: int) -> Crowd:
    """So many agents at once."""
    taken = Crowd()
    host = Simulated(ROUNDS, PAUSE_S)
    provider = over(host)
    warm = agent_over(over(Simulated(ROUNDS, 0.0)))
    await warm.run_conversation("Look.")
    empty = memory_kb()
    agents = [agent_over(provider) for _ in range(count)]
    taken.idle_kb = (memory_kb() - empty) / count
    looking_s = 0.0

    def look() -> None:
        nonlocal looking_s
        started = time.process_time()
        taken.active_kb = (memory_kb() - empty) / count
        looking_s += time.process_time() - started

    host.look_at, host.look = 2 * count, look  # the last agent makes its second call
    calls = ROUNDS + 1
    first = asyncio.Event()

    async def one(agent: AIAgent) -> None:
        result = await agent.run_conversation("Look.")
        assert result["api_calls"] == calls, result["error"]
        if not first.is_set():
            first.set()
            taken.fewest_calls = min(host.calls.values()) if len(host.calls) == count else 0

    with collecting() as collected:
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(agent) for agent in agents))
        cpu = time.process_time() - cpu - looking_s
        taken.wall_s = time.perf_counter() - wall
    taken.cpu_s = cpu / count / calls
    taken.collector_s = (sum(collected) - looking_s) / count / calls
    taken.ended_kb = (memory_kb() - empty) / count
    for agent in [warm, *agents]:
        await agent.close()
    taken.late_median_s, taken.late_worst_s = statistics.median(host.overdue), max(host.overdue)
    return taken


@contextmanager
def collecting() -> Iterator[list[float]]:
    """CPU of each run of the garbage collector."""
    taken: list[float] = []

    def note(phase: str, _info: object) -> None:
        taken.append(-time.process_time() if phase == "start" else time.process_time())

    gc.callbacks.append(note)
    try:
        yield taken
    finally:
        gc.callbacks.remove(note)


class Line(NamedTuple):
    """What a call costs: so much, and so much for each byte. In seconds."""

    start: float
    slope: float

    @classmethod
    def through(cls, sizes: Sequence[int], costs: Sequence[float]) -> Line:
        """Of each 100 calls that follow each other the tenth cheapest counts, since other work on the machine
        only adds to what a call takes."""
        at = range(0, len(costs) - WINDOW + 1, WINDOW)
        cheap = [sorted(costs[start : start + WINDOW])[WINDOW // 10] for start in at]
        slope, start = statistics.linear_regression([sizes[place + WINDOW // 2] for place in at], cheap)
        return cls(start, slope)

    def __str__(self) -> str:
        return f"{self.start * 1e6:.0f} us and {self.slope * 1e9:.3f} ns a byte"


async def growth() -> None:
    """What each call of one turn costs as its conversation grows, against joining the same bytes by hand."""
    host = Simulated(CALLS, 0.0)
    agent = agent_over(over(host))
    gc.disable()
    result = await agent.run_conversation("Look often.")
    assert result["final_response"], result["error"]
    await agent.close()
    costs = [later.came - one.ready for one, later in pairwise(host.asked)]
    sizes = [one.size for one in host.asked[1:]]
    print(f"one turn of {len(costs):,} calls, {2 * CALLS:,} messages, last request {sizes[-1] / 1e3:.0f} kB")
    for place in (100, 1_000, 5_000, len(costs) - 50):
        near = statistics.median(costs[place - 50 : place + 50])
        print(f"  call {place:5}: {near * 1e6:6.0f} us CPU, {sizes[place] / 1e3:6.0f} kB")
    print(f"  a call: {Line.through(sizes, costs)}")
    print(f"  joining the parts by hand: {Line.through(sizes, joining(sizes))}")


def sending() -> None:
    """What sending takes for each byte: with the kernel alone, and with the default engine in front of it."""
    with subprocess.Popen([sys.executable, SERVER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            kernel, engine = per_byte(bare_sends(port)), per_byte(asyncio.run(engine_sends(port)))
        finally:
            process.kill()
    print(f"  sending: {kernel * 1e9:.3f} ns a byte in the kernel, {engine * 1e9:.3f} with the engine")


def per_byte(costs: Mapping[int, list[float]]) -> float:
    """From small and large bodies that were sent in turns."""
    small, large = BODIES
    return (statistics.median(costs[large]) - statistics.median(costs[small])) / (large - small)


def bare_sends(port: int) -> dict[int, list[float]]:
    """CPU of a blocking socket."""
    costs: dict[int, list[float]] = {size: [] for size in BODIES}
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for size in BODIES * SENDS:
            head = f"POST {ADDRESS} HTTP/1.1\r\nhost: bench\r\ncontent-length: {size}\r\n\r\n"
            request = head.encode() + b" " * size
            started = time.process_time()
            connection.sendall(request)
            costs[size].append(time.process_time() - started)
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65_536)
    return costs


async def engine_sends(port: int) -> dict[int, list[float]]:
    """CPU of the default engine, with reading the short answer."""
    costs: dict[int, list[float]] = {size: [] for size in BODIES}
    transport = make_transport("httpx", Timeouts(), HttpOptions(keep_alive=True))
    await transport.open()
    for size in BODIES * SENDS:
        body, clock = b" " * size, StreamClock(Timeouts(), asyncio.get_running_loop().time())
        started = time.process_time()
        async with transport.post(f"http://127.0.0.1:{port}{ADDRESS}", {}, body, clock) as reply:
            while await reply.read(clock):
                pass
        costs[size].append(time.process_time() - started)
    await transport.close()
    return costs


def joining(sizes: Sequence[int]) -> list[float]:
    """CPU for joining the parts of the same requests, which grow as those of the turn did."""
    parts: list[bytes] = []
    held = 0
    took = []
    body = b""
    for size in sizes:
        parts.append(b"x" * (size - held - 1))
        held = size
        started = time.process_time()
        joined = b"".join((b",".join(parts), b"]}"))
        took.append(time.process_time() - started)
        body = joined  # the one before is let go only now, as in a turn
    assert len(body) > sizes[-1]
    return took


def main(counts: tuple[int, ...]) -> None:
    """Each crowd in a process of its own; one again with a garbage collector that seldom runs."""
    for count in counts:
        show_crowd(count)
    show_crowd(counts[len(counts) // 2], SELDOM)
    asyncio.run(growth())
    sending()


def show_crowd(count: int, thresholds: tuple[int, ...] = ()) -> None:
    """Run it and print a line."""
    command = [sys.executable, __file__, "--crowd", str(count), *map(str, thresholds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    one = msgspec.json.decode(done.stdout, type=Crowd)
    how = f" with gc.set_threshold{thresholds}" if thresholds else ""
    print(
        f"{count:6,} agents{how} x {ROUNDS + 1} calls of {PAUSE_S:.0f} s: {one.wall_s:5.2f} s, CPU"
        f" {one.cpu_s * 1e6:4.0f} us a call ({one.collector_s * 1e6:.0f} of it the garbage collector's);"
        f" idle {one.idle_kb:.1f} kB, in a turn {one.active_kb:.1f}, after it {one.ended_kb:.1f} each;"
        f" when the first agent was done each other had made at least {one.fewest_calls} calls;"
        f" wake-ups late by {one.late_median_s * 1e3:.0f} ms in the median,"
        f" {one.late_worst_s * 1e3:.0f} ms at worst",
        flush=True,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--crowd", count, *thresholds]:
            if thresholds:
                gc.set_threshold(*map(int, thresholds))
            print(msgspec.json.encode(asyncio.run(crowd(int(count)))).decode())
        case given:
            main(tuple(map(int, given)) or AGENTS)

"""What a row of a batch costs, as the calls of functions that it makes: no load on the machine changes that.

    uv run benchmarks/profile_batch.py            # by package, over aiohttp and httpx, beside the floor
    uv run benchmarks/profile_batch.py aiohttp 40 # over one of them, with the 40 functions called most often

Rows have two tool rounds and a text, as in `bench_batch.py`, on a server that answers at once. What a run
costs without any row is left out: the figures are the difference of two runs. Threads are not counted.
"""

from __future__ import annotations

import asyncio
import cProfile
import re
import sys
from collections import Counter, defaultdict
from types import CodeType

from bench_batch import ENGINES, RUNS, served

WORKERS = 16
FEW, MANY = 64, 256
LAYERS = ("floor", "agents")
_PLACE = re.compile(r".*(?:src|site-packages|python3\.\d+)/((\w+).*)\.py$")

Function = tuple[str, str]
"""Its package, and where it stands."""


def function_of(code: CodeType | str) -> Function:
    if isinstance(code, str):
        return "builtins", code
    place = _PLACE.search(code.co_filename)
    return (place[2], f"{place[1]}: {code.co_qualname}") if place else ("benchmark", code.co_qualname)


def calls(layer: str, engine: str, rows: int, server: str) -> Counter[Function]:
    run, tool = RUNS[layer]
    with cProfile.Profile() as profile:
        asyncio.run(run(engine, WORKERS, rows, f"{server}/0/2/5/{tool}/v1"))
    counted: Counter[Function] = Counter()
    for entry in profile.getstats():
        counted[function_of(entry.code)] += entry.callcount
    return counted


def show(layer: str, engine: str, server: str, most: int) -> None:
    calls(layer, engine, FEW, server)  # loads all modules
    few, many = (calls(layer, engine, rows, server) for rows in (FEW, MANY))
    a_row = {function: (many[function] - few[function]) / (MANY - FEW) for function in many}
    packages: defaultdict[str, float] = defaultdict(float)
    for (package, _), count in a_row.items():
        packages[package] += count
    sorted_packages = sorted(packages.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {count:.0f}" for name, count in sorted_packages if count >= 1)
    print(f"{engine}, {layer}: {sum(a_row.values()):,.0f} calls a row: {listed}", flush=True)
    for (_, place), count in sorted(a_row.items(), key=lambda item: -item[1])[:most]:
        print(f"  {count:7.1f} {place}")


def main(engines: tuple[str, ...], most: int) -> None:
    with served() as server:
        for engine in engines:
            for layer in LAYERS:
                show(layer, engine, server, most)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main(ENGINES, 0)
        case [engine, most]:
            main((engine,), int(most))
        case _:
            sys.exit(__doc__)

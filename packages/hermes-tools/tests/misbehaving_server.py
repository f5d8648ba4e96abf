"""An MCP server in a few lines that misbehaves as its first argument says; its second is a file to count in.

    python misbehaving_server.py MODE [FILE]

Standard library only; it speaks the protocol of 2025-11-25 by hand, so that it can break it.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
STARTED = time.monotonic()
BIG = 5 * 1024 * 1024
TOKEN = os.environ.get("SERVICE_TOKEN", "")
tools = ["echo"]


def count(what: str) -> None:
    if FILE is not None:
        with FILE.open("a") as file:
            file.write(what + "\n")


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": request["id"], "result": result})


def say(request: dict[str, Any], text: str) -> None:
    answer(request, {"content": [{"type": "text", "text": text}]})


def listed(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"the tool {name}",
        "inputSchema": {"type": "object", "properties": {}},
    }


def on_initialize(request: dict[str, Any]) -> None:
    if MODE == "banner and wait":
        return
    capabilities: dict[str, Any] = {"tools": {}}
    if MODE == "list changed":
        capabilities = {"tools": {"listChanged": True}}
    if MODE == "prompts only":
        capabilities = {"prompts": {}}
    answer(
        request,
        {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": {"name": "misbehaving", "version": "1"},
            "instructions": "Be kind.\U000e0049\U000e0047" + (f" Use {TOKEN}." if MODE == "tells" else ""),
        },
    )


def on_list(request: dict[str, Any]) -> None:
    count("list")
    cursor = (request.get("params") or {}).get("cursor")
    page: dict[str, Any] = {"tools": [listed(name) for name in tools]}
    match MODE:
        case "pages":
            number = int(cursor or 0)
            page = {"tools": [listed(f"tool{number}")]}
            if number < 2:
                page["nextCursor"] = str(number + 1)
        case "endless cursor":
            number = int(cursor or 0)
            page = {"tools": [listed(f"tool{number}")], "nextCursor": str(number + 1)}
        case "repeated cursor":
            page["nextCursor"] = "again"
        case "silent list":
            return
        case "prompts only":
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
        case "odd names":
            page = {"tools": [listed(n) for n in ("a.b", "a b", "a_b", "a_b", "x" * 90, "\U000e0041hid")]}
            page["tools"][2]["description"] = "seen\U000e0041\U000e0042"
        case "tells":
            key = {"type": "string", "default": TOKEN}
            named = {"description": key, "most": {"type": "integer", "maximum": 2**53 - 1}}
            schema = {"type": "object", "properties": named, "required": ["description"]}
            page = {"tools": [{"name": "echo", "description": f"with {TOKEN}", "inputSchema": schema}]}
        case "broken list":
            page = {"tools": [{"name": 5}]}
        case _:
            pass
    answer(request, page)


def on_call(request: dict[str, Any]) -> None:  # noqa: C901 - a table: one case for each way to misbehave
    count("call")
    match MODE:
        case "dies mid-call":
            sys.stderr.write(f"out of cheese, token {os.environ.get('SERVICE_TOKEN')}\n")
            sys.stderr.flush()
            os._exit(7)
        case "dies leaving a child":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # holds our output open
            os._exit(0)
        case "dies once":
            if FILE is not None and FILE.read_text().count("call") == 1:
                os._exit(1)
            say(request, "well again")
        case "silent call" | "ignores the end":
            return
        case "big answer":
            say(request, "x" * (BIG - 5) + "\u00e9 end")
        case "odd bytes":
            reply = {
                "jsonrpc": "2.0",
                "id": request["id"],
                "result": {"content": [{"type": "text", "text": "@"}]},
            }
            write(b"\xff\xfe not a message \xff")
            write(json.dumps(reply).encode().replace(b"@", b"odd \xff byte"))
        case "surrogates":
            line = json.dumps(
                {"id": request["id"], "result": {"content": [{"type": "text", "text": "half \ud83d"}]}}
            )
            write(b'{"jsonrpc": "2.0", ' + line[1:].encode())
        case "notification between":
            send({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
            send({"method": "notifications/tools/list_changed"})
            send({"method": "notifications/unheard_of", "params": {"a": 1}})
            send({"id": 900, "method": "roots/list"})
            send({"id": 901, "method": "ping"})
            say(request, "still here")
        case "list changed":
            tools.append("late")
            send({"method": "notifications/tools/list_changed"})
            say(request, "changed")
        case "invisible text":
            flag = "".join(chr(0xE0000 + ord(sign)) for sign in "gbeng\x7f")
            say(request, f"fine\U000e0049\U000e0067\U000e006e text \U0001f3f4{flag}")
        case "error result":
            answer(request, {"content": [{"type": "text", "text": "no such city"}], "isError": True})
        case "broken answer":
            answer(request, {"content": [{"type": "text"}]})
        case "error without text":
            send({"id": request["id"], "error": {"code": -32000, "message": ""}})
        case "tells":
            report = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1}
            send(
                {"method": "notifications/progress", "params": {**report, "message": f"{'.' * 285} {TOKEN}"}}
            )
            send({"id": request["id"], "error": {"code": -32000, "message": f"{TOKEN} is too old"}})
        case "tells its environment":
            say(request, json.dumps(dict(os.environ)))
        case "all kinds":
            data = base64.b64encode(b"12345").decode()
            content = [
                {"type": "image", "data": data, "mimeType": "image/png"},
                {"type": "audio", "data": data, "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///a", "name": "A", "description": "first"},
                {
                    "type": "resource",
                    "resource": {"uri": "file:///b", "mimeType": "text/plain", "text": "body"},
                },
                {"type": "resource", "resource": {"uri": "file:///c", "blob": data}},
            ]
            answer(request, {"content": content, "structuredContent": {"a": [1, 2]}})
        case "asks":
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            params: dict[str, Any] = {"message": "How many?", "requestedSchema": schema}
            send({"id": 77, "method": "elicitation/create", "params": params})
            told = read()
            while told is not None and told.get("id") != 77:
                told = read()
            say(request, json.dumps((told or {}).get("result")))
        case _:
            say(request, "echo: " + json.dumps((request.get("params") or {}).get("arguments")))


def read() -> dict[str, Any] | None:
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else None


def main() -> None:
    count("start")
    if MODE in ("banner", "banner and wait"):
        print("Welcome to the server!\n{not json}\n\x1b[32mlistening\x1b[0m", flush=True)
    if MODE == "ignores the end":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "exits at once":
        sys.exit("no licence file" + (f" for {TOKEN}" if TOKEN else ""))
    while (message := read()) is not None:
        match message.get("method"):
            case "initialize":
                on_initialize(message)
            case "tools/list":
                on_list(message)
                if MODE == "drops":
                    time.sleep(0.2)
                    sys.exit("the licence has run out")
            case "tools/call":
                on_call(message)
            case "notifications/cancelled":
                count("cancelled")
            case _ if "id" in message and "method" in message and MODE != "banner and wait":
                send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    while MODE == "ignores the end":
        time.sleep(1)


if __name__ == "__main__":
    main()

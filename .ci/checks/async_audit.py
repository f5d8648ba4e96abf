"""Prove from the syntax tree that the packages are native async.

    python .ci/checks/async_audit.py [ROOT]

Names are followed through import aliases, so `from asyncio import to_thread as t` is seen. The rules:

threads       No name of `BANNED_NAMES` or `BANNED_ATTRIBUTES` is used at all, not even as a string given to
              `getattr` or `import_module`.
event-loop    `asyncio.run`, `asyncio.Runner`, `anyio.run` stand only in modules named cli.py or __main__.py.
blocking      No blocking call (`open`, pathlib, os, shutil, tempfile, sqlite3, name look-ups ...) in an
              `async def`, nor in a plain function of the same module that one calls, directly or not. What is
              awaited or entered with `async with` is not blocking. Path methods whose names other objects
              share (`BLOCKING_IF_PATH`) count only on what is visibly a path.
result        `X.result()` stands only where X was just found done: see task_results.py.
dropped-task  The value of `create_task` or `ensure_future` is kept, unless an asyncio.TaskGroup owns it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from findings import Finding, run_check
from syntax import Function, Module, Names, source_files
from task_results import audit_results

BANNED_NAMES = {
    "asyncio.to_thread": "runs in a thread",
    "anyio.to_thread": "runs in a thread",
    "anyio.from_thread": "needs a thread",
    "anyio.Path": "runs in threads; use aiofiles",
    "anyio.open_file": "runs in threads; use aiofiles",
    "concurrent.futures": "starts threads or processes behind the loop's back",
    "threading.Thread": "our code starts no threads",
    "threading.Timer": "our code starts no threads",
    "_thread": "our code starts no threads",
    "multiprocessing": "children are started through anyio or asyncio",
    "subprocess.run": "children are started through anyio or asyncio",
    "subprocess.Popen": "children are started through anyio or asyncio",
    "subprocess.call": "children are started through anyio or asyncio",
    "subprocess.check_call": "children are started through anyio or asyncio",
    "subprocess.check_output": "children are started through anyio or asyncio",
    "subprocess.getoutput": "children are started through anyio or asyncio",
    "subprocess.getstatusoutput": "children are started through anyio or asyncio",
    "os.system": "children are started through anyio or asyncio",
    "os.popen": "children are started through anyio or asyncio",
    "os.fork": "children are started through anyio or asyncio",
    "requests": "blocking HTTP",
    "urllib.request": "blocking HTTP",
    "time.sleep": "blocks the loop; await asyncio.sleep or anyio.sleep",
}
BANNED_ATTRIBUTES = {
    "run_in_executor",
    "set_default_executor",
    "run_until_complete",
    "run_coroutine_threadsafe",
}
EVENT_LOOP_STARTS = {"asyncio.run", "asyncio.Runner", "anyio.run"}
EVENT_LOOP_MODULES = {"cli.py", "__main__.py"}

BLOCKING_CALLS = {
    "open", "input", "io.open", "sqlite3.connect", "glob.glob", "glob.iglob", "fcntl.flock", "fcntl.lockf",
    "socket.create_connection", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr",
    "socket.getfqdn", "select.select", "os.path.exists", "os.path.lexists", "os.path.isfile", "os.path.isdir",
    "os.path.islink", "os.path.getsize", "os.path.getmtime", "os.path.realpath", "os.path.samefile",
    "ray.init", "ray.get", "ray.wait", "ray.shutdown",
}  # fmt: skip
BLOCKING_MODULES = {"shutil", "tempfile", "os"}
NOT_BLOCKING = {
    "os.getenv", "os.getpid", "os.getppid", "os.getuid", "os.getgid", "os.geteuid", "os.getpgid", "os.kill",
    "os.killpg", "os.fspath", "os.fsencode", "os.fsdecode", "os.strerror", "os.cpu_count",
    "os.process_cpu_count", "os.sched_getaffinity", "os.urandom", "os.get_terminal_size", "os.WIFEXITED",
    "os.WEXITSTATUS", "os.waitstatus_to_exitcode", "os.pipe", "os.close", "os.set_blocking",
    "os.set_inheritable", "os.stat_result", "shutil.get_terminal_size",
}  # fmt: skip

BLOCKING_METHODS = {
    "read_text", "write_text", "read_bytes", "write_bytes", "iterdir", "rglob", "is_file", "is_dir",
    "is_symlink", "lstat", "unlink", "mkdir", "rmdir", "symlink_to", "hardlink_to", "readlink", "samefile",
    "chmod",
}  # fmt: skip
"""Methods that only paths have: blocking on whatever they are called, unless awaited."""
BLOCKING_IF_PATH = {
    "open",
    "stat",
    "exists",
    "glob",
    "resolve",
    "rename",
    "replace",
    "absolute",
    "expanduser",
}
PATH_MAKERS = {"pathlib.Path", "pathlib.PosixPath", "pathlib.Path.cwd", "pathlib.Path.home"}
PATH_RETURNING = {"parent", "absolute", "expanduser", "joinpath", "resolve", "with_name", "with_suffix"}


def banned_prefix(name: str) -> str | None:
    """The entry of `BANNED_NAMES` that `name` is or lies under."""
    parts = name.split(".")
    return next((p for n in range(len(parts)) if (p := ".".join(parts[: n + 1])) in BANNED_NAMES), None)


def audit_threads(module: Module) -> Iterator[Finding]:
    """Rules `threads` and `event-loop`."""
    for node in ast.walk(module.tree):
        for name in mentioned(node, module.names):
            banned = banned_prefix(name)
            if banned:
                yield module.finding(node, "threads", f"{name}: {BANNED_NAMES[banned]}")
            elif name.rsplit(".", 1)[-1] in BANNED_ATTRIBUTES:
                yield module.finding(node, "threads", f"{name}: hands work to a thread or nests the loop")
            elif name in EVENT_LOOP_STARTS and module.path.name not in EVENT_LOOP_MODULES:
                yield module.finding(node, "event-loop", f"{name} belongs in cli.py or __main__.py")


def mentioned(node: ast.AST, names: Names) -> Iterator[str]:
    """The dotted names that this node alone brings up."""
    if isinstance(node, ast.Import):
        yield from (item.name for item in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{item.name}" for item in node.names)
    elif isinstance(node, ast.Attribute):
        yield names.of(node) or f"?.{node.attr}"
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and names.of(node) != node.id:
        yield names.of(node)
    elif isinstance(node, ast.Call) and names.of(node.func).rsplit(".", 1)[-1] in {
        "getattr", "import_module", "__import__", "methodcaller", "attrgetter",
    }:  # fmt: skip
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                base = names.of(node.args[0])
                yield f"{base}.{argument.value}" if base else argument.value


def audit_blocking(module: Module) -> Iterator[Finding]:
    """Rule `blocking`."""
    reachable = reached_from_async(module)
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        function = module.function_of(node)
        if function in reachable and (blocked := blocking_name(node, module)):
            yield module.finding(node, "blocking", f"{blocked}() blocks the loop ({reachable[function]})")


def reached_from_async(module: Module) -> dict[Function | None, str]:
    """Every function that runs on the loop, with how that is known."""
    functions = [node for node in ast.walk(module.tree) if isinstance(node, Function)]
    reached: dict[Function | None, str] = {
        f: f"in async def {f.name}" for f in functions if isinstance(f, ast.AsyncFunctionDef)
    }
    waiting = list(reached)
    while waiting:
        caller = waiting.pop()
        assert caller is not None
        called = {
            n.func.id for n in ast.walk(caller) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        called |= {
            n.func.attr
            for n in ast.walk(caller)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and is_self(n.func.value)
        }
        nested = {f for f in ast.walk(caller) if isinstance(f, Function)}
        for function in functions:
            if function not in reached and (function in nested or function.name in called):
                reached[function] = f"{function.name} is called by {caller.name}, {reached[caller]}"
                waiting.append(function)
    return reached


def is_self(node: ast.AST) -> bool:
    """Whether `node` is `self` or `cls`."""
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


def blocking_name(call: ast.Call, module: Module) -> str:
    """The name to show if `call` blocks, else an empty string."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Await) or (
        isinstance(parent, ast.withitem) and isinstance(module.parents[parent], ast.AsyncWith)
    ):
        return ""
    name = module.names.of(call.func)
    if name in BLOCKING_CALLS:
        non_blocking = name.startswith("fcntl.") and "LOCK_NB" in ast.dump(call)
        return "" if non_blocking else name
    if name.split(".")[0] in BLOCKING_MODULES and not name.startswith(("os.path.", "os.environ.")):
        return "" if name in NOT_BLOCKING else name
    if not isinstance(call.func, ast.Attribute):
        return ""
    method, owner = call.func.attr, call.func.value
    if method in BLOCKING_METHODS and not module.names.of(owner).startswith("aiofiles"):
        return f"Path.{method}"
    return f"Path.{method}" if method in BLOCKING_IF_PATH and is_path(owner, module) else ""


def is_path(node: ast.AST, module: Module) -> bool:
    """Whether `node` is visibly a path: made by Path(...), or a name that is annotated or assigned as one."""
    match node:
        case ast.Call(func=func):
            made = module.names.of(func) in PATH_MAKERS
            return made or (isinstance(func, ast.Attribute) and is_path_step(func, module))
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            return is_path(left, module) or is_path(right, module)
        case ast.Attribute(attr="parent", value=value):
            return is_path(value, module)
        case ast.Name(id=name):
            return name in path_names(module.function_of(node), module)
        case _:
            return False


def is_path_step(func: ast.Attribute, module: Module) -> bool:
    """Whether calling `func` on a path gives a path again."""
    return func.attr in PATH_RETURNING and is_path(func.value, module)


def path_names(function: Function | None, module: Module) -> set[str]:
    """The names that are paths in `function`."""
    if function is None:
        return set()
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    found = {a.arg for a in given if a.annotation is not None and annotates_path(a.annotation, module)}
    for node in ast.walk(function):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if annotates_path(
                annotation, module
            ):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)) if (
                module.names.of(func) in PATH_MAKERS
            ):
                found.add(name)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.Div(), left=ast.Name(id=base))
            ) if base in found:
                found.add(name)
            case _:
                pass
    return found


def annotates_path(annotation: ast.AST, module: Module) -> bool:
    """Whether an annotation is Path, also as one member of a union."""
    if isinstance(annotation, ast.BinOp):
        return annotates_path(annotation.left, module) or annotates_path(annotation.right, module)
    return module.names.of(annotation) in PATH_MAKERS


def audit_dropped_tasks(module: Module) -> Iterator[Finding]:
    """Rule `dropped-task`."""
    groups = {
        item.optional_vars.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
        and module.names.of(item.context_expr.func) == "asyncio.TaskGroup"
        and isinstance(item.optional_vars, ast.Name)
    }
    for node in ast.walk(module.tree):
        match node:
            case ast.Expr(value=ast.Call(func=func)):
                pass
            case ast.Assign(targets=[ast.Name(id="_")], value=ast.Call(func=func)):
                pass
            case _:
                continue
        name = module.names.of(func)
        owner, _, last = name.rpartition(".")
        called = func.attr if isinstance(func, ast.Attribute) else last
        if called in {"create_task", "ensure_future"} and owner not in groups:
            yield module.finding(node, "dropped-task", "the task has no owner that awaits it")


def audit(root: Path) -> Iterator[Finding]:
    """All rules over all package sources below `root`."""
    for path in source_files(root):
        module = Module(path, path.relative_to(root).as_posix())
        seen: set[Finding] = set()
        for rule in (audit_threads, audit_blocking, audit_results, audit_dropped_tasks):
            seen.update(rule(module))
        yield from seen


if __name__ == "__main__":
    run_check("async audit", audit)

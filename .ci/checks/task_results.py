"""Where `.result()` may stand: where the task was just found done, so that it neither waits nor comes early.

Of a task X, that is

1. in the body of `if X.done():` (also as one part of an `and`; also `X.result() if X.done() else ...`);
2. on the variable of a loop over the first name of `done, pending = await asyncio.wait(...)`;
3. after an `await asyncio.wait(...)` in the same block that mentions X and has no timeout or return_when;
4. after `if not X.done():`, in this block or one around it, that ends in raise, return, continue or break;
5. on the last argument of a function that `add_done_callback` is given by name;
6. after `X.exception()` in a statement of this block or one around it: that raises unless X is done.

A method of one's own needs another name than `result`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from findings import Finding
from syntax import Function, Module


def audit_results(module: Module) -> Iterator[Finding]:
    """Every `.result()` of the module that is none of the five cases."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "result":
            task = node.func.value
            if not any(case(node, task, module) for case in JUST_FOUND_DONE):
                message = f"{ast.unparse(task)}.result() where it was not just found done"
                yield module.finding(node, "result", message)


def found_done(node: ast.AST, task: ast.expr, module: Module) -> bool:
    """Case 1: in the body of `if X.done():`."""
    wanted = f"{ast.unparse(task)}.done()"
    for parent, child in module.above(node):
        if isinstance(parent, Function):
            return False
        if isinstance(parent, ast.If | ast.IfExp):
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            test = parent.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            if child in body and wanted in {ast.unparse(part) for part in parts}:
                return True
    return False


def from_wait(node: ast.AST, task: ast.expr, module: Module) -> bool:
    """Case 2: X runs over the done set of asyncio.wait."""
    function = module.function_of(node)
    if not isinstance(task, ast.Name) or function is None:
        return False
    done_sets = set(done_sets_of(function, module))
    for parent, _ in module.above(node):
        clauses = [child for child in ast.iter_child_nodes(parent) if isinstance(child, ast.comprehension)]
        for loop in [parent, *clauses]:
            if (
                isinstance(loop, ast.For | ast.comprehension)
                and ast.unparse(loop.target) == task.id
                and ast.unparse(loop.iter) in done_sets
            ):
                return True
    return False


def done_sets_of(function: Function, module: Module) -> Iterator[str]:
    """The names that `done, pending = await asyncio.wait(...)` gives to done sets."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id=name), *_])], value=ast.Await(value=ast.Call(func=func))
            ) if module.names.of(func) == "asyncio.wait":
                yield name
            case _:
                pass


def waited_before(node: ast.AST, task: ast.expr, module: Module) -> bool:
    """Case 3: an earlier statement of the same block waited for X without a limit."""
    earlier = next(earlier_statements(node, module), [])
    return any(waits_for(statement, ast.unparse(task), module) for statement in earlier)


def earlier_statements(node: ast.AST, module: Module) -> Iterator[list[ast.stmt]]:
    """What stands before `node` in its block, then before that block in the next one, up to the function."""
    for parent, child in module.above(node):
        for _, block in ast.iter_fields(parent):
            if isinstance(block, list) and isinstance(child, ast.stmt) and child in block:
                yield block[: block.index(child)]
        if isinstance(parent, Function):
            return


def waits_for(statement: ast.stmt, wanted: str, module: Module) -> bool:
    """Whether `statement` is an unlimited `await asyncio.wait(...)` that mentions the task."""
    awaited = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    match awaited:
        case ast.Await(value=ast.Call(func=func, args=[first], keywords=[])):
            waited_for = {ast.unparse(part) for part in ast.walk(first) if isinstance(part, ast.expr)}
            return module.names.of(func) == "asyncio.wait" and wanted in waited_for
        case _:
            return False


def left_if_not_done(node: ast.AST, task: ast.expr, module: Module) -> bool:
    """Case 4: an earlier `if not X.done():` ended in raise, return, continue or break."""
    wanted = f"not {ast.unparse(task)}.done()"
    return any(
        isinstance(statement, ast.If)
        and ast.unparse(statement.test) == wanted
        and isinstance(statement.body[-1], ast.Raise | ast.Return | ast.Continue | ast.Break)
        for earlier in earlier_statements(node, module)
        for statement in earlier
    )


def asked_for_exception(node: ast.AST, task: ast.expr, module: Module) -> bool:
    """Case 6: an earlier statement asked for the exception, also as the test of an `if`."""
    wanted = f"{ast.unparse(task)}.exception()"
    return any(
        ast.unparse(part) == wanted
        for earlier in earlier_statements(node, module)
        for statement in earlier
        for part in ast.walk(statement.test if isinstance(statement, ast.If) else statement)
        if isinstance(part, ast.Call)
    )


def in_done_callback(node: ast.AST, task: ast.expr, module: Module) -> bool:
    """Case 5: X is the last argument of a function that `add_done_callback` is given by name."""
    function = module.function_of(node)
    if function is None or not function.args.args or ast.unparse(task) != function.args.args[-1].arg:
        return False
    given = {
        ast.unparse(call.args[0]).removeprefix("self.")
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "add_done_callback"
    }
    return function.name in given


JUST_FOUND_DONE = (
    found_done,
    from_wait,
    waited_before,
    left_if_not_done,
    in_done_callback,
    asked_for_exception,
)

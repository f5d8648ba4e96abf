"""Declaring a tool: an async function becomes a frozen `FunctionTool`.

>>> from hermes_tools import tool
>>> @tool
... async def add(a: int, b: int = 1) -> str:
...     '''Add two numbers.
...
...     Args:
...         a: the first number
...     '''
...     return str(a + b)
>>> add.spec.name, add.spec.description
('add', 'Add two numbers.')
"""

from __future__ import annotations

import copy
import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from functools import lru_cache
from types import CellType
from typing import Any, overload

import msgspec

from hermes_messages import JsonObject, ToolDeclarationError, ToolSpec
from hermes_messages.protocols import Scheduling, Tool, ToolCallContext
from hermes_tools.arguments import check_names
from hermes_tools.context import CallContext
from hermes_tools.docstrings import read_docstring
from hermes_tools.errors import ArgumentsMismatchError
from hermes_tools.schema import build_schema

__all__ = ["FunctionTool", "tool"]

ToolFunction = Callable[..., Awaitable[object]]
"""An async function with named parameters; what it returns is the result of the call."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
_SCHEDULING = typing.get_args(Scheduling)


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool made from an async function. It stays callable as that function.

    `timeout_s` bounds one call in seconds, `output_limit` its result in characters; None leaves both to the
    executor. `changes_files`: a checkpoint is taken before a call, where they are on. `idempotent`: a second
    run of a call does no harm; see `AIAgent(rerun_idempotent_tools=True)`. `context_parameter` is the
    function's parameter that takes the context of the call, if any.
    """

    spec: ToolSpec
    """What the model is told of it."""
    function: ToolFunction
    """What `@tool` stood over."""
    arguments_type: type[msgspec.Struct]
    """Made from the signature; arguments are read into it."""
    scheduling: Scheduling = "sequential"
    """Whether calls of it may overlap with others."""
    context_parameter: str | None = None
    timeout_s: float | None = None
    output_limit: int | None = None
    changes_files: bool = False
    idempotent: bool = False

    async def run(self, arguments: JsonObject, context: ToolCallContext) -> str:
        """Call the function. Raises `ArgumentsMismatchError` with the path of a value that does not fit;
        whatever the function raises passes through. A result that is no text is given as JSON."""
        check_names(arguments, self.arguments_type.__struct_fields__)
        try:
            fitted = msgspec.convert(arguments, self.arguments_type)
        except msgspec.ValidationError as error:
            raise ArgumentsMismatchError(str(error)) from None
        keywords = msgspec.structs.asdict(fitted)
        if self.context_parameter is not None:
            keywords[self.context_parameter] = context
        result = await self.function(**keywords)
        return result if isinstance(result, str) else msgspec.json.encode(result).decode()

    async def __call__(self, *args: object, **keywords: object) -> object:
        """Call the function itself, as its own tests do."""
        return await self.function(*args, **keywords)


@overload
def tool(function: ToolFunction, /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    scheduling: Scheduling = "sequential",
    timeout_s: float | None = None,
    output_limit: int | None = None,
    changes_files: bool = False,
    idempotent: bool = False,
) -> Callable[[ToolFunction], FunctionTool]: ...


def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    scheduling: Scheduling = "sequential",
    timeout_s: float | None = None,
    output_limit: int | None = None,
    changes_files: bool = False,
    idempotent: bool = False,
) -> FunctionTool | Callable[[ToolFunction], FunctionTool]:
    """Make a tool of an async function: `@tool`, or `@tool(scheduling="parallel", timeout_s=30)`.

    The schema comes from the type hints as msgspec reads them (`Annotated` with `msgspec.Meta` or a text,
    `Literal`, enums, structs, dataclasses, unions, defaults), the descriptions from the docstring and its
    `Args:` section. A parameter annotated `ToolCallContext` (or `CallContext`) gets the context of the call
    and is not shown to the model.
    Raises `ToolDeclarationError` at once for a function that can not become a tool.
    """

    def declare(function: ToolFunction) -> FunctionTool:
        key = _declared_before(
            function, (name, description, scheduling, timeout_s, output_limit, changes_files, idempotent)
        )
        known = None if key is None else _remembered.get(key)
        if known is not None:
            return msgspec.structs.replace(known, function=function)
        declared = msgspec.structs.replace(
            _declare(function, name, description, scheduling, timeout_s, output_limit),
            changes_files=changes_files,
            idempotent=idempotent,
        )
        if key is not None:
            if len(_remembered) >= _MOST_REMEMBERED:
                _remembered.clear()
            _remembered[key] = declared
        return declared

    return declare if function is None else declare(function)


def _declare(
    function: ToolFunction,
    name: str | None,
    description: str | None,
    scheduling: Scheduling,
    timeout_s: float | None,
    output_limit: int | None,
) -> FunctionTool:
    chosen = name or _function_name(function)
    _check_is_async(function, chosen)
    if not _NAME.fullmatch(chosen):
        raise ToolDeclarationError(
            f"tool name {chosen!r}: use letters, digits, '_' and '-', a letter first, at most 64; "
            "give another with @tool(name=...)"
        )
    if scheduling not in _SCHEDULING:
        raise ToolDeclarationError(f"tool {chosen!r}: scheduling {scheduling!r} is none of {_SCHEDULING}")
    if (timeout_s is not None and timeout_s <= 0) or (output_limit is not None and output_limit <= 0):
        raise ToolDeclarationError(f"tool {chosen!r}: timeout_s and output_limit must be above 0")
    documented = read_docstring(inspect.getdoc(function))
    text = description if description is not None else documented.text
    if not text:
        raise ToolDeclarationError(
            f"tool {chosen!r} has no description: write a docstring, the model chooses tools by it"
        )
    arguments_type, context_parameter = _read_signature(function, chosen)
    schema = build_schema(arguments_type, documented.parameters)
    return FunctionTool(
        spec=ToolSpec.from_schema(chosen, text, schema),
        function=function,
        arguments_type=arguments_type,
        scheduling=scheduling,
        context_parameter=context_parameter,
        timeout_s=timeout_s,
        output_limit=output_limit,
    )


_MOST_REMEMBERED = 512
_remembered: dict[tuple[object, ...], FunctionTool] = {}
"""Toolsets declare their tools anew for each executor, as functions that differ in nothing but closures, and
reading type hints costs more than all else of making one. Each tool here keeps what its key names alive."""


def _declared_before(function: ToolFunction, options: tuple[object, ...]) -> tuple[object, ...] | None:
    """What a declaration depends on, in a form that can be compared; None for what is no plain function."""
    if not inspect.isfunction(function):
        return None
    hints = function.__annotations__.items()
    shown = tuple([(name, hint if isinstance(hint, str) else id(hint)) for name, hint in hints])
    cells = function.__closure__ or ()
    keywords = function.__kwdefaults__
    return (
        *options,
        id(function.__code__),  # to hash it would take longer than all else here
        function.__name__,
        function.__doc__,
        id(function.__globals__),
        *shown,
        *map(id, function.__defaults__ or ()),
        *([(name, id(default)) for name, default in keywords.items()] if keywords else ()),
        # A closure counts where a hint may speak of it: two functions of one code may mean other types.
        *[id(_content(cells[place])) for place in _spoken_of(function.__code__.co_freevars, shown)],
    )


@lru_cache(maxsize=512)
def _spoken_of(closure: tuple[str, ...], hints: tuple[tuple[str, str | int], ...]) -> tuple[int, ...]:
    """The places of the names of a closure that stand in a hint."""
    texts = [hint for _, hint in hints if isinstance(hint, str)]
    return tuple(place for place, name in enumerate(closure) if any(name in text for text in texts))


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is still empty
        return cell


def _function_name(function: object) -> str:
    if inspect.isroutine(function):
        return function.__name__
    return type(function).__name__


def _check_is_async(function: object, name: str) -> None:
    if inspect.isasyncgenfunction(function):
        raise ToolDeclarationError(
            f"tool {name!r} is an async generator; return one text, and report on the way with "
            "`await context.progress(...)`"
        )
    if not inspect.iscoroutinefunction(function):
        raise ToolDeclarationError(
            f"tool {name!r} is not an async function; declare it with `async def` "
            "(a synchronous tool would block the event loop and is never run in a thread)"
        )


def _read_signature(function: ToolFunction, name: str) -> tuple[type[msgspec.Struct], str | None]:
    try:
        hints = typing.get_type_hints(function, localns=_closure_names(function), include_extras=True)
    except NameError as error:
        raise ToolDeclarationError(
            f"tool {name!r}: a type hint can not be read: {error}; define the type at module level"
        ) from None
    fields: list[tuple[str, Any, Any]] = []
    context_parameter: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDeclarationError(
                f"tool {name!r}: parameter {parameter.name!r} has no name that a model could give "
                "(positional-only, *args and **kwargs can not be used)"
            )
        hint = _described(hints.get(parameter.name))
        if hint is ToolCallContext or hint is CallContext:
            context_parameter = parameter.name
            continue
        if parameter.name not in hints:
            raise ToolDeclarationError(f"tool {name!r}: parameter {parameter.name!r} has no type hint")
        fields.append((parameter.name, hint, _field_default(parameter)))
    type_name = "".join(word.capitalize() for word in re.split(r"[_-]+", name)) + "Arguments"
    try:
        arguments_type = msgspec.defstruct(type_name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(arguments_type)
    except (TypeError, ValueError) as error:
        raise ToolDeclarationError(f"tool {name!r}: its parameters have no JSON schema: {error}") from None
    return arguments_type, context_parameter


def _described(hint: Any) -> Any:
    """`Annotated[int, "the number"]` as msgspec writes it: the text becomes the description."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    kind, *notes = typing.get_args(hint)
    if kind is ToolCallContext or kind is CallContext:
        return kind
    return typing.Annotated[
        (kind, *(msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes))
    ]


def _closure_names(function: ToolFunction) -> dict[str, Any]:
    plain = function.__func__ if inspect.ismethod(function) else function
    return dict(inspect.getclosurevars(plain).nonlocals) if inspect.isfunction(plain) else {}


def _field_default(parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        return msgspec.NODEFAULT
    default = parameter.default
    if isinstance(default, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: copy.deepcopy(default))
    return default


if typing.TYPE_CHECKING:

    def _fits(function_tool: FunctionTool) -> Tool:
        return function_tool

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from hermes_messages import JsonObject, JsonValue, ToolDeclarationError
from hermes_messages.protocols import ToolCallContext
from hermes_tools import CallContext, FunctionTool, tool


class Point(msgspec.Struct):
    """A place."""

    x: int
    y: int = 0


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


def schema_of(made: FunctionTool) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(bytes(made.spec.parameters))
    return decoded


def test_name_description_and_schema_come_from_the_function() -> None:
    @tool
    async def add(a: int, b: Annotated[int, Meta(description="the other")] = 1) -> str:
        """Add two numbers.

        Slowly.

        Args:
            a (int): the one
                number

        Returns:
            the sum
        """
        return str(a + b)

    assert add.spec.name == "add"
    assert add.spec.description == "Add two numbers.\n\nSlowly."
    assert schema_of(add) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "the one number"},
            "b": {"type": "integer", "description": "the other", "default": 1},
        },
        "required": ["a"],
    }
    assert add.scheduling == "sequential"


def test_schema_of_structs_literals_unions_and_optional_fields_holds_no_reference() -> None:
    @tool(name="draw-it", description="Draw.", scheduling="parallel", timeout_s=3, output_limit=10)
    async def draw(
        where: Point,
        how: Literal["line", "dot"] = "dot",
        size: float = 1,
        label: str | None = None,
        more: list[Point] = [],  # noqa: B006 - what a user may write
    ) -> str:
        return ""

    assert (draw.spec.name, draw.timeout_s, draw.output_limit) == ("draw-it", 3, 10)
    point = {
        "type": "object",
        "description": "A place.",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    }
    schema = schema_of(draw)
    assert "$ref" not in json.dumps(schema)
    assert "title" not in json.dumps(schema)
    assert schema["properties"]["where"] == point
    assert schema["properties"]["how"] == {"type": "string", "enum": ["dot", "line"], "default": "dot"}
    assert schema["properties"]["label"] == {"type": "string"}
    assert schema["properties"]["more"]["items"] == point


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Box(msgspec.Struct, tag="box"):
    size: Size


def test_hints_of_every_kind_are_read_and_reach_the_function_as_what_they_say(bench: Any) -> None:
    @tool(description="D.")
    async def paint(
        shape: Circle | Box,
        colour: Colour = Colour.RED,
        times: Annotated[int, "how often", Meta(ge=1)] = 1,
        where: tuple[int, int] | None = None,
        tags: dict[str, int] = {},  # noqa: B006 - what a user may write
    ) -> str:
        assert isinstance(shape, Circle | Box)
        assert isinstance(colour, Colour)
        return f"{type(shape).__name__} {colour.name} {times} {where} {tags}"

    schema = schema_of(paint)
    assert schema["required"] == ["shape"]
    assert schema["properties"]["times"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how often",
        "default": 1,
    }
    assert "$ref" not in json.dumps(schema)
    good = {"shape": {"type": "box", "size": {"width": "3"}}, "colour": "blue", "where": "[1, 2]"}
    bad = {"shape": {"type": "circle", "radius": 1}, "times": 0}
    worse = {"shape": {"type": "star"}}
    first, second, third = bench.run(
        bench.call("paint", good), bench.call("paint", bad), bench.call("paint", worse), tools=(paint,)
    )
    assert first.content == "Box BLUE 1 (1, 2) {}"
    assert (second.status, third.status) == ("error", "error")
    assert "$.times" in second.content
    assert "$.shape" in third.content


def test_a_parameter_may_be_any_json(bench: Any) -> None:
    @tool
    async def keep(value: JsonValue, more: JsonObject) -> str:
        """Keep it."""
        return f"{value} {more}"

    [result] = bench.run(bench.call("keep", {"value": [1, None], "more": {"a": {}}}), tools=(keep,))
    assert result.content == "[1, None] {'a': {}}"


def test_the_context_tells_where_and_for_whom_a_call_runs(bench: Any) -> None:
    @tool(description="D.")
    async def tell(context: Annotated[CallContext, "not shown"]) -> str:
        file = await context.resources.new_file("note")
        await file.close()
        return f"{context.session_id} {context.task_id} {context.turn_id} {context.cwd}"

    assert schema_of(tell)["properties"] == {}
    [result] = bench.run(bench.call("tell"), tools=(tell,))
    assert result.content == f"session task turn {bench.workspace}"


def test_a_type_that_contains_itself_keeps_its_definition() -> None:
    @tool(description="Plant.")
    async def plant(tree: Tree) -> str:
        return str(len(tree.children))

    schema = schema_of(plant)
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


def test_the_schema_is_the_same_bytes_each_time() -> None:
    def make() -> FunctionTool:
        @tool(description="D.")
        async def same(b: Point, a: Literal["z", "a"], c: int = 3) -> str:
            return ""

        return same

    assert bytes(make().spec.parameters) == bytes(make().spec.parameters)


def test_the_context_is_found_by_its_annotation_and_not_shown(bench: Any) -> None:
    seen: list[object] = []

    @tool(description="Look.")
    async def look(a: int, ctx: ToolCallContext) -> str:
        seen.append(ctx)
        return f"{ctx.round.session_id} {ctx.call.name} {a}"

    @tool(description="Look.")
    async def look_closer(here: CallContext) -> str:
        return here.resources.task_id

    assert list(schema_of(look)["properties"]) == ["a"]
    first, second = bench.run(
        bench.call("look", {"a": 2}), bench.call("look_closer"), tools=(look, look_closer)
    )
    assert first.content == "session look 2"
    assert second.content == "task"


def test_structs_and_defaults_reach_the_function(bench: Any) -> None:
    @tool(description="D.")
    async def where(point: Point, tags: list[str] = ["a"]) -> dict[str, object]:  # noqa: B006
        tags.append("seen")
        return {"sum": point.x + point.y, "tags": tags}

    calls = [bench.call("where", {"point": {"x": "4"}}) for _ in range(2)]
    for result in bench.run(*calls, tools=(where,)):
        assert json.loads(result.content) == {"sum": 4, "tags": ["a", "seen"]}


def test_a_bound_method_becomes_a_tool(bench: Any) -> None:
    class Counter:
        count = 0

        async def step(self, by: int = 1) -> str:
            """Count on."""
            self.count += by
            return str(self.count)

    step = tool(Counter().step)
    assert [
        result.content for result in bench.run(bench.call("step"), bench.call("step"), tools=(step,))
    ] == [
        "1",
        "2",
    ]


def test_a_sync_function_is_refused_at_once() -> None:
    with pytest.raises(ToolDeclarationError, match=r"'slow' is not an async function.*async def"):

        @tool  # type: ignore[arg-type]
        def slow(a: int) -> str:
            """Slow."""
            return str(a)


def test_what_no_schema_can_be_made_of_is_refused() -> None:
    async def no_hint(a) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """D."""
        return ""

    async def star(*a: int) -> str:
        """D."""
        return ""

    async def odd(a: complex) -> str:
        """D."""
        return ""

    async def silent(a: int) -> str:
        return ""

    async def stream(a: int) -> Any:
        """D."""
        yield a

    for function, words in (
        (no_hint, "'a' has no type hint"),
        (star, r"\*args"),
        (odd, "no JSON schema"),
        (silent, "no description"),
        (stream, "async generator"),
    ):
        with pytest.raises(ToolDeclarationError, match=words):
            tool(function)
    with pytest.raises(ToolDeclarationError, match="letters, digits"):
        tool(name="no spaces", description="D.")(silent)
    with pytest.raises(ToolDeclarationError, match="scheduling"):
        tool(scheduling="often", description="D.")(silent)  # type: ignore[call-overload]
    with pytest.raises(ToolDeclarationError, match="above 0"):
        tool(timeout_s=0, description="D.")(silent)


def test_a_type_that_exists_only_later_is_named() -> None:
    async def later(a: NotYet) -> str:  # type: ignore[name-defined]  # noqa: F821
        """D."""
        return ""

    with pytest.raises(ToolDeclarationError, match="NotYet"):
        tool(later)


def test_an_argument_that_does_not_exist_is_named_with_the_nearest(bench: Any) -> None:
    @tool(description="D.")
    async def open_it(path: str, mode: str = "r") -> str:
        return path

    [result] = bench.run(bench.call("open_it", {"path": "a", "mod": "w"}), tools=(open_it,))
    assert result.status == "error"
    assert "there is no argument 'mod'; did you mean 'mode'?" in result.content


def test_functions_of_one_text_are_told_apart_by_what_their_hints_mean() -> None:
    def declared(kind: type, default: object) -> FunctionTool:
        async def take(value: kind, more: int = default) -> str:  # type: ignore[valid-type, assignment]
            """Take it."""
            return f"{value!r} {kind}"  # named here, it can be found by the hint

        return tool(take)

    numbers, again, texts, seven = (
        declared(int, 1), declared(int, 1), declared(str, 1), declared(int, 7)
    )  # fmt: skip
    assert again.spec == numbers.spec
    assert again.function is not numbers.function
    properties = [
        msgspec.json.decode(bytes(one.spec.parameters))["properties"] for one in (numbers, texts, seven)
    ]
    assert [found["value"]["type"] for found in properties] == ["integer", "string", "integer"]
    assert [found["more"]["default"] for found in properties] == [1, 1, 7]


def test_a_tool_that_is_declared_again_runs_its_own_function() -> None:
    def declared(answer: str) -> FunctionTool:
        @tool
        async def say() -> str:
            """Say it."""
            return answer

        return say

    first, second = declared("one"), declared("two")

    async def main() -> list[object]:
        return [await second.function(), await first.function()]

    assert asyncio.run(main()) == ["two", "one"]

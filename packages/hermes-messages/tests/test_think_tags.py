import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from hermes_messages.think_tags import ThinkTagSplitter


def split(chunks: list[str], *, cut_off: bool = False, starts_inside: bool = False) -> tuple[str, str | None]:
    """The visible text and the reasoning of a whole stream."""
    splitter = ThinkTagSplitter(starts_inside=starts_inside)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    rest = splitter.finish(cut_off=cut_off)
    pieces.extend(rest.pieces)
    visible = "".join(piece.text for piece in pieces if not piece.reasoning)
    reasoning = [piece.text for piece in pieces if piece.reasoning]
    joined = "".join(reasoning) if reasoning else None
    if rest.reclaimed:
        assert joined is not None
        assert joined.endswith(rest.reclaimed)
        joined = joined.removesuffix(rest.reclaimed)
        visible += rest.reclaimed
    return visible, joined


def test_tags_cut_anywhere_neither_leak_nor_eat_the_first_word() -> None:
    assert split(["<", "think>plan", "</thi", "nk>Done"]) == ("Done", "plan")


def test_prose_that_mentions_a_tag_in_a_line_stays() -> None:
    prose = "Wrap it in <think> and </think> tags.\nLike so: <think>x</think>\n"
    assert split(list(prose)) == (prose, None)


def test_unclosed_is_reasoning() -> None:
    assert split(["<think>still ", "thinking</th"]) == ("", "still thinking</th")


def test_nested_tags_stay_in_the_reasoning() -> None:
    assert split(["<think>a<think>b</think>c</think>", "Done"]) == ("Done", "a<think>b</think>c")


def test_reasoning_that_only_mentions_a_tag_does_not_swallow_the_answer() -> None:
    assert split(["<think>use the <think> tag</think>\nThe answer"]) == (
        "\nThe answer",
        "use the <think> tag</think>",
    )


def test_nothing_is_reclaimed_from_a_response_that_was_cut_off() -> None:
    text = "<think>a<think>b</think>c"
    assert split([text], cut_off=True) == ("", "a<think>b</think>c")


def test_opens_at_the_start_of_a_later_line() -> None:
    assert split(["Let me see.\n  <thinking>hm</thinking>\nYes"]) == ("Let me see.\n  \nYes", "hm")


def test_blank_text_around_reasoning_at_the_start_is_dropped() -> None:
    assert split(["\n <think>\nplan\n</think>\n\nDone\n"]) == ("Done\n", "\nplan\n")


def test_an_empty_block_is_reasoning_that_was_given() -> None:
    assert split(["<think></think>Done"]) == ("Done", "")
    assert split(["Done"]) == ("Done", None)


def test_scratchpad_tags_in_any_case() -> None:
    assert split(["<REASONING_SCRATCHPAD>x</REASONING_SCRATCHPAD>y"]) == ("y", "x")
    assert split(["<Think>x</THINK>y"]) == ("y", "x")


def test_two_blocks_are_kept_apart() -> None:
    assert split(["<think>a</think><think>b</think>c"]) == ("c", "a\nb")


def test_tags_in_a_fenced_code_block_are_text() -> None:
    code = "Write:\n```xml\n<think>\nx\n</think>\n```\n"
    assert split([code, "<think>y</think>z"]) == (code + "z", "y")


def test_a_possible_tag_at_the_end_is_given_out() -> None:
    for text in ("<", "<thi", "a\n<", "  \n", "``", "a < b", "<thinker>"):
        assert split([text]) == (text, None)


def test_text_is_not_held_back_without_need() -> None:
    splitter = ThinkTagSplitter()
    assert [piece.text for piece in splitter.feed("Hello\n<b>")] == ["Hello\n", "<b>"]
    assert [piece.text for piece in splitter.feed(" <")] == [" <"]


def test_feeding_on_after_finish_goes_on_in_the_line() -> None:
    splitter = ThinkTagSplitter()
    assert splitter.feed("<th") == []
    assert [piece.text for piece in splitter.finish().pieces] == ["<th"]
    assert [piece.text for piece in splitter.feed("ink>")] == ["ink>"]


def test_orphan_closing_tag_of_a_block_that_the_template_opened() -> None:
    assert split(["pl", "an</th", "ink>\n\nDone"], starts_inside=True) == ("Done", "plan")
    assert split(["plan</think>Done"]) == ("plan</think>Done", None)


def test_a_model_that_opens_the_tag_of_the_template_again_is_forgiven() -> None:
    assert split(["\n<thi", "nk>plan</think>Done"], starts_inside=True) == ("Done", "\nplan")
    assert split(["a<think>b</think>c</think>Done"], starts_inside=True) == ("Done", "a<think>b</think>c")


def test_unclosed_block_of_the_template_is_reasoning() -> None:
    assert split(["plan", " more"], starts_inside=True) == ("", "plan more")
    assert split(["</think>Done"], starts_inside=True) == ("Done", "")
    assert split([], starts_inside=True) == ("", None)


def test_later_blocks_after_that_of_the_template() -> None:
    assert split(["a</think>x\n<think>b</think>y"], starts_inside=True) == ("x\ny", "a\nb")


TOKENS = st.sampled_from(
    ["<think>", "</think>", "<thinking>", "</THINKING>", "<REASONING_SCRATCHPAD>", "<", "</", "<thi", "```",
     "`", "~~~", "\n", " ", "\t", "a", "Done", "\u00e9", "\u212a", "\u0130", ">"]
)  # fmt: skip


def cut(text: str, points: list[int]) -> list[str]:
    bounds = [0, *sorted(point % (len(text) + 1) for point in points), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(bounds)]


@given(
    st.lists(TOKENS, max_size=14).map("".join),
    st.lists(st.integers(0, 200), max_size=8),
    st.booleans(),
    st.booleans(),
)
@example("<think>plan</think>Done", list(range(24)), False, False)
@example("plan</think>Done", list(range(24)), False, True)
def test_any_cut_of_the_text_gives_the_same_result(
    text: str, points: list[int], cut_off: bool, starts_inside: bool
) -> None:
    whole = split([text], cut_off=cut_off, starts_inside=starts_inside)
    assert split(cut(text, points), cut_off=cut_off, starts_inside=starts_inside) == whole
    assert split(list(text), cut_off=cut_off, starts_inside=starts_inside) == whole


@given(
    st.text(alphabet=st.sampled_from("<>/think \n`~ab"), max_size=40),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_a_stream_without_tags_is_unchanged(text: str, points: list[int]) -> None:
    if "<think>" not in text and "<thinking>" not in text:
        assert split(cut(text, points)) == (text, None)

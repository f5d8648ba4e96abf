"""Which rows are run on resume."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_batch.plan import Finished, RetryPolicy, RowKey, is_final, make_plan

RECORD = Finished(RowKey(0, "h"), "shard-00001.jsonl", 0, 1)


def rows(*contents: str) -> list[RowKey]:
    return [RowKey(index, content) for index, content in enumerate(contents)]


def finished(*keys: RowKey) -> list[Finished]:
    return [Finished(key, "shard-00001.jsonl", offset, 1) for offset, key in enumerate(keys)]


def test_the_same_dataset_leaves_only_what_is_missing() -> None:
    dataset = rows("a", "b", "c")
    assert make_plan(dataset, finished(dataset[0], dataset[2])).todo == (1,)


def test_a_row_inserted_on_top_moves_the_others_without_running_them_again() -> None:
    assert make_plan(rows("new", "a", "b"), finished(*rows("a", "b"))).todo == (0,)


def test_reordered_and_removed_rows() -> None:
    assert make_plan(rows("c", "a"), finished(*rows("a", "b", "c"))).todo == ()


def test_a_prompt_that_stands_twice_is_run_twice() -> None:
    assert make_plan(rows("a", "a"), finished(*rows("a"))).todo == (1,)
    assert make_plan(rows("a", "a", "a"), finished(*rows("a", "a"))).todo == (2,)


def test_an_edited_row_is_run_again() -> None:
    assert make_plan(rows("a", "B"), finished(*rows("a", "b"))).todo == (1,)


def test_the_later_record_of_a_row_counts() -> None:
    dataset = rows("a")
    first, second = finished(dataset[0], dataset[0])
    assert make_plan(dataset, [first, second]).done == {0: second}


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_content_is_run_as_often_as_it_stands_in_the_dataset(now: list[str], before: list[str]) -> None:
    plan = make_plan(rows(*now), finished(*rows(*before)))
    assert len(plan.done) + len(plan.todo) == len(now)
    for content in "abc":
        left = sum(now[index] == content for index in plan.todo)
        assert left == max(0, now.count(content) - before.count(content))
    places = [(place.shard, place.offset) for place in plan.done.values()]
    assert len(set(places)) == len(places)
    assert all(place.key.content_hash == now[index] for index, place in plan.done.items())


def test_what_counts_as_finished() -> None:
    plain, failed, discarded = RetryPolicy(), RetryPolicy(failed=True), RetryPolicy(discarded=True)
    ok = replace(RECORD, status="ok")
    dropped = replace(RECORD, status="discarded")
    paid = replace(RECORD, status="error", run_again=False)
    unreached = replace(RECORD, status="error", run_again=True)
    assert [is_final(ok, policy) for policy in (plain, failed, discarded)] == [True, True, True]
    assert [is_final(dropped, policy) for policy in (plain, failed, discarded)] == [True, True, False]
    assert [is_final(paid, policy) for policy in (plain, failed, discarded)] == [True, False, True]
    assert [is_final(unreached, policy) for policy in (plain, failed, discarded)] == [False, False, False]

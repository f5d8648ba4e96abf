"""Which rows are run on resume."""

from collections.abc import Sequence
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from hermes_batch.packed import Finished, FinishedRows, RowHashes, pack_hash
from hermes_batch.plan import Plan, RetryPolicy, is_final, make_plan
from hermes_batch.records import RecordStatus

STATUSES: tuple[RecordStatus, ...] = get_args(RecordStatus)


def rows(*contents: str) -> RowHashes:
    hashes = RowHashes()
    for content in contents:
        hashes.add(content)
    return hashes


def finished(*contents: str, at: Sequence[int] | None = None) -> FinishedRows:
    """Good records of rows that stood at the places `at`, or one after the other."""
    records = FinishedRows()
    for place, content in enumerate(contents):
        index = place if at is None else at[place]
        records.add(index=index, content_hash=content, shard="s", offset=place, length=1)
    return records


def todo(plan: Plan) -> tuple[int, ...]:
    return tuple(plan.todo)


def test_the_same_dataset_leaves_only_what_is_missing() -> None:
    assert todo(make_plan(rows("a", "b", "c"), finished("a", "c", at=[0, 2]))) == (1,)


def test_a_row_inserted_on_top_moves_the_others_without_running_them_again() -> None:
    assert todo(make_plan(rows("new", "a", "b"), finished("a", "b"))) == (0,)


def test_reordered_and_removed_rows() -> None:
    assert todo(make_plan(rows("c", "a"), finished("a", "b", "c"))) == ()


def test_a_prompt_that_stands_twice_is_run_twice() -> None:
    assert todo(make_plan(rows("a", "a"), finished("a"))) == (1,)
    assert todo(make_plan(rows("a", "a", "a"), finished("a", "a"))) == (2,)


def test_an_edited_row_is_run_again() -> None:
    assert todo(make_plan(rows("a", "B"), finished("a", "b"))) == (1,)


def test_the_later_record_of_a_row_counts() -> None:
    plan = make_plan(rows("a"), finished("a", "a", at=[0, 0]))
    assert [(index, record.offset) for index, record in plan.done()] == [(0, 1)]


def test_a_record_of_a_place_that_is_gone_is_no_error() -> None:
    assert todo(make_plan(rows("a"), finished("b", "a", at=[-1, 10**12]))) == ()


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_content_is_run_as_often_as_it_stands_in_the_dataset(now: list[str], before: list[str]) -> None:
    plan = make_plan(rows(*now), finished(*before))
    done = dict(plan.done())
    assert len(done) + len(plan.todo) == len(now)
    assert plan.finished == len(done)
    for content in "abc":
        left = sum(now[index] == content for index in plan.todo)
        assert left == max(0, now.count(content) - before.count(content))
    places = [(place.shard, place.offset) for place in done.values()]
    assert len(set(places)) == len(places)
    assert all(place.packed_hash == pack_hash(now[index]) for index, place in done.items())


records = st.tuples(st.integers(0, 6), st.sampled_from("ab"), st.sampled_from(STATUSES), st.booleans())


@given(st.lists(st.sampled_from("ab"), max_size=6), st.lists(records, max_size=10))
def test_no_record_stands_idle_while_a_worse_one_is_taken(
    now: list[str], before: list[tuple[int, str, RecordStatus, bool]]
) -> None:
    """Against the plain rule: of each content the best records are taken, one for each place and content."""
    given_records = FinishedRows()
    for offset, (index, content, status, run_again) in enumerate(before):
        given_records.add(
            index=index, content_hash=content, shard="s", offset=offset, length=1, status=status,
            run_again=run_again and status == "error",
        )  # fmt: skip
    best: dict[tuple[int, str], int] = {}
    for number, (index, content, *_) in enumerate(before):
        known = best.get((index, content))
        if known is None or given_records.worth(number) <= given_records.worth(known):
            best[index, content] = number
    worth = {record.offset: given_records.worth(record.offset) for record in given_records}
    plan = make_plan(rows(*now), given_records)
    for content in "ab":
        available = sorted(worth[number] for (_, of), number in best.items() if of == content)
        taken = sorted(worth[record.offset] for index, record in plan.done() if now[index] == content)
        assert taken == available[: now.count(content)]
    for index, record in plan.done():
        exact = best.get((index, now[index]))
        if exact is not None and record.index != index:
            assert worth[record.offset] < worth[exact] or any(
                other.offset == exact for _, other in plan.done()
            )


def test_what_counts_as_finished() -> None:
    policies = (RetryPolicy(), RetryPolicy(failed=True), RetryPolicy(discarded=True))

    def final(status: RecordStatus, *, run_again: bool = False) -> list[bool]:
        return [is_final(status, policy, run_again=run_again) for policy in policies]

    assert final("ok") == [True, True, True]
    assert final("discarded") == [True, True, False]
    assert final("error") == [True, False, True]
    assert final("error", run_again=True) == [False, False, False]


def test_a_record_that_is_to_be_run_again_leaves_its_row_to_do() -> None:
    records = FinishedRows()
    records.add(index=0, content_hash="a", shard="s", offset=0, length=1, status="error")
    assert todo(make_plan(rows("a"), records, RetryPolicy())) == ()
    assert todo(make_plan(rows("a"), records, RetryPolicy(failed=True))) == (0,)


def test_packed_records_come_back_as_they_were_put_in() -> None:
    records = FinishedRows()
    records.add(index=3, content_hash="ab" * 16, shard="s1", offset=0, length=9, tools=("read", "write"))
    records.add(
        index=2**40, content_hash="x", shard="s2", offset=2**40, length=2**33, status="error", run_again=True
    )
    assert list(records) == [
        Finished(3, b"\xab" * 16, "s1", 0, 9),
        Finished(2**40, pack_hash("x"), "s2", 2**40, 2**33, "error", run_again=True),
    ]


def test_only_the_tools_of_records_that_stand_for_a_row_are_named() -> None:
    records = FinishedRows()
    records.add(index=0, content_hash="a", shard="s", offset=0, length=1, tools=("read", "write"))
    records.add(index=7, content_hash="gone", shard="s", offset=1, length=1, tools=("search",))
    records.add(index=1, content_hash="b", shard="s", offset=2, length=1, tools=("read", "todo"))
    assert make_plan(rows("a", "b"), records).tools() == {"read", "write", "todo"}
    assert make_plan(rows("c"), records).tools() == set()

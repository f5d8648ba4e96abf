"""Which appends go together: in order, each once, and nobody waits behind a session that is held."""

from __future__ import annotations

import random
from collections import defaultdict

from msgspec import Struct

from hermes_store.append_queue import APART_AGAIN, MAX_GROUP, MAX_GROUP_SIZE, SHARED, AppendQueue, Lane


class Item(Struct, frozen=True):
    session_id: str
    number: int
    size: int = 1


def filled(*items: Item) -> AppendQueue[Item]:
    queue: AppendQueue[Item] = AppendQueue()
    for item in items:
        queue.submit(item)
    return queue


def test_only_the_first_of_a_lane_asks_for_a_worker() -> None:
    queue: AppendQueue[Item] = AppendQueue()
    assert queue.submit(Item("a", 1)) == (SHARED, True)
    assert queue.submit(Item("b", 2)) == (SHARED, False)
    assert queue.take(SHARED) == [Item("a", 1), Item("b", 2)]
    assert queue.submit(Item("c", 3)) == (SHARED, False)  # the worker comes back for it
    assert queue.take(SHARED) == [Item("c", 3)]
    assert queue.take(SHARED) == []
    assert queue.submit(Item("d", 4)) == (SHARED, True)


def test_a_group_is_bounded_in_number_and_in_size() -> None:
    many = [Item("a", number) for number in range(MAX_GROUP + 1)]
    queue = filled(*many)
    assert [queue.take(SHARED), queue.take(SHARED)] == [many[:MAX_GROUP], many[MAX_GROUP:]]
    half = MAX_GROUP_SIZE // 2
    large = [Item("a", 1, half), Item("a", 2, half), Item("a", 3, 1), Item("a", 4, 3 * half), Item("a", 5)]
    queue = filled(*large)
    assert [queue.take(SHARED) for _ in range(5)] == [large[:2], large[2:3], large[3:4], large[4:], []]


def test_a_session_that_is_held_gets_a_lane_with_all_that_waits_for_it() -> None:
    first, other, second = Item("held", 1), Item("free", 2), Item("held", 3)
    queue = filled(first, other)
    assert queue.take(SHARED) == [first, other]
    queue.submit(second)
    queue.submit(Item("free", 4))
    assert queue.set_apart([first]) == ["held"]
    assert queue.submit(Item("held", 5)) == ("held", False)
    assert queue.take(SHARED) == [Item("free", 4)]
    assert queue.take("held") == [first, second, Item("held", 5)]
    assert queue.take("held") == []
    for number in range(APART_AGAIN):  # it may be held again
        assert queue.submit(Item("held", number)) == ("held", True)
        assert queue.take("held") == [Item("held", number)]
        assert queue.take("held") == []
    assert queue.submit(Item("held", 6)) == (SHARED, False)


def test_a_lane_that_is_there_loses_nothing_when_its_session_is_held_again() -> None:
    first, second, third, fourth = (Item("s", number) for number in range(4))
    queue = filled(first)
    queue.take(SHARED)
    assert queue.set_apart([first]) == ["s"]
    assert queue.take("s") == [first]
    assert queue.take("s") == []
    queue.take(SHARED)
    for number in range(APART_AGAIN):
        assert queue.submit(Item("s", number))[0] == "s"
        queue.take("s")
        queue.take("s")
    queue.submit(second)
    assert queue.take(SHARED) == [second]
    queue._were_held["s"] = 2
    assert queue.submit(third) == ("s", True)
    assert queue.set_apart([second]) == []
    assert queue.submit(fourth) == ("s", False)
    assert queue.take("s") == [second, third, fourth]


def test_what_is_withdrawn_or_let_pass_is_in_no_group() -> None:
    queue = filled(Item("a", 1), Item("a", 2), Item("a", 3))
    assert queue.withdraw(Item("a", 2))
    assert not queue.withdraw(Item("a", 2))
    assert queue.take(SHARED) == [Item("a", 1), Item("a", 3)]
    assert not queue.withdraw(Item("a", 1))
    queue.submit(Item("a", 4))
    assert queue.take_all(SHARED) == [Item("a", 4)]
    assert queue.take(SHARED) == []
    assert queue.take_all(SHARED) == []


def test_every_append_comes_once_and_each_session_in_order() -> None:
    """Random steps of workers, which find sessions held, and take groups back."""
    for seed in range(200):
        chance = random.Random(seed)
        queue: AppendQueue[Item] = AppendQueue()
        workers: list[Lane] = []
        came: dict[str, list[int]] = defaultdict(list)
        done: dict[str, list[int]] = defaultdict(list)
        for number in range(150):
            item = Item(chance.choice("abcd"), number, chance.choice([1, 1, MAX_GROUP_SIZE // 2]))
            came[item.session_id].append(number)
            lane, is_new = queue.submit(item)
            if is_new:
                workers.append(lane)
            if chance.random() < 0.3:
                work(queue, workers, chance, done, may_fail=True)
        while workers:
            work(queue, workers, chance, done, may_fail=False)
        assert done == came


def work(
    queue: AppendQueue[Item],
    workers: list[Lane],
    chance: random.Random,
    done: dict[str, list[int]],
    *,
    may_fail: bool,
) -> None:
    """One transaction of one worker."""
    if not workers:
        return
    lane = chance.choice(workers)
    group = queue.take(lane)
    if not group:
        workers.remove(lane)
    elif may_fail and chance.random() < 0.2:
        queue.put_back(lane, group)
    else:
        is_shared = lane is SHARED
        busy = {name for name in "abcd" if name in workers or chance.random() < 0.2} if is_shared else set()
        held = [item for item in group if item.session_id in busy]
        workers += queue.set_apart(held) if held else []
        for item in group:
            if item not in held:
                done[item.session_id].append(item.number)

"""The contract of savers of sessions, as checks for a saver of your own.

    @pytest.mark.parametrize("check", session_saver_checks(), ids=lambda check: check.__name__)
    def test_my_saver(check):
        check(MySaver())  # a new, empty one each time

A check takes an empty object with `get`, `put`, `list` and `delete`, and raises AssertionError if
it behaves otherwise than `SessionSaver` does.
"""

import threading
from collections.abc import Callable
from typing import Any

from actorgraph.sessions import CheckpointSaver

SessionCheck = Callable[[CheckpointSaver], None]
_CHECKS: list[SessionCheck] = []


def session_saver_checks() -> list[SessionCheck]:
    """All checks, in order."""
    return list(_CHECKS)


def _add(check: SessionCheck) -> SessionCheck:
    _CHECKS.append(check)
    return check


@_add
def it_has_the_four_methods(saver: CheckpointSaver) -> None:
    """`isinstance(saver, CheckpointSaver)` is true."""
    assert isinstance(saver, CheckpointSaver)


@_add
def put_and_get_return_equal_records(saver: CheckpointSaver) -> None:
    """`get` returns the record that `put` returned, by its id and as the newest one."""
    first = saver.put("t", {"n": 1, "list": [1, {"a": None}]}, metadata={"by": "ada"})
    second = saver.put("t", {"n": 2}, parent_id=first.id)

    assert (first.thread_id, first.state["n"], first.metadata) == ("t", 1, {"by": "ada"})
    assert (first.parent_id, second.parent_id) == (None, first.id)
    assert saver.get("t") == second
    assert saver.get("t", first.id) == first
    assert first.created_at.tzinfo is not None


@_add
def unknown_checkpoints_are_none(saver: CheckpointSaver) -> None:
    """`get` returns None for unknown threads, unknown ids and ids of other threads."""
    point = saver.put("t", {})

    assert saver.get("u") is None
    assert saver.get("u", point.id) is None
    assert saver.get("t", "no id") is None
    assert saver.list("u") == []


@_add
def lists_are_newest_first_and_limited(saver: CheckpointSaver) -> None:
    """`list` returns the newest first; `limit` is 10 by default; `before` excludes newer ones."""
    points = [saver.put("t", {"n": n}) for n in range(13)][::-1]
    saver.put("u", {})

    assert saver.list("t") == points[:10]
    assert saver.list("t", limit=99) == points
    assert saver.list("t", before=points[4].id, limit=3) == points[5:8]
    assert saver.list("t", before=points[-1].id) == []
    assert saver.list("t", before="no id") == []
    assert saver.list("t", limit=0) == saver.list("t", limit=-1) == []


@_add
def nothing_is_shared_with_the_caller(saver: CheckpointSaver) -> None:
    """Mutating a value after `put`, or a returned record, changes nothing that is stored."""
    state: dict[str, Any] = {"list": [1]}
    point = saver.put("t", state, metadata={"m": []})
    state["list"].append(2)
    point.state["list"].append(3)
    point.metadata["m"].append(4)
    found = saver.get("t")

    assert found is not None
    assert (found.state, found.metadata) == ({"list": [1]}, {"m": []})


@_add
def values_that_json_lacks_are_refused(saver: CheckpointSaver) -> None:
    """A value that JSON can't hold raises a TypeError with its path, and nothing is stored."""
    for wrong in ({"a": [object()]}, {"a": {1: 2}}, {"a": float("nan")}):
        assert "'a'" in _refusal(saver, wrong, {})
        assert "'a'" in _refusal(saver, {}, wrong)
    assert saver.list("t") == []


def _refusal(saver: CheckpointSaver, state: Any, metadata: Any) -> str:
    try:
        saver.put("t", state, metadata=metadata)
    except TypeError as error:
        return str(error)
    raise AssertionError(f"{state!r} and {metadata!r} were accepted")


@_add
def deleting_removes_the_whole_thread(saver: CheckpointSaver) -> None:
    """`delete` removes the thread's checkpoints and no others; repeating it raises nothing."""
    saver.put("t", {"n": 1})
    saver.put("t", {"n": 2})
    other = saver.put("u", {})
    saver.delete("t")
    saver.delete("t")

    assert saver.list("t") == []
    assert saver.get("u") == other
    assert saver.put("t", {}).parent_id is None


@_add
def concurrent_puts_lose_nothing(saver: CheckpointSaver) -> None:
    """After concurrent puts and reads of eight threads every checkpoint is there."""
    failed: list[BaseException] = []

    def put(name: str) -> None:
        try:
            for n in range(10):
                saver.put(name, {"n": n})
                saver.list("t0", limit=3)
        except BaseException as error:  # noqa: BLE001 - asserted below
            failed.append(error)

    names = ["t0", "t1"] * 4
    threads = [threading.Thread(target=put, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    for name in ("t0", "t1"):
        found = [point.state["n"] for point in saver.list(name, limit=1000)]
        assert sorted(found) == sorted([*range(10)] * 4)

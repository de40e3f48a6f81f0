"""Large items of callers on an event loop are checked and encoded beside it."""

import threading
from typing import Any

import pytest

from actorgraph.values.largeness import LARGE


class Noting(dict[str, Any]):
    """A dict that notes in which threads it is looked through."""

    def __init__(self) -> None:
        super().__init__(a=1)
        self.threads: set[int] = set()

    def items(self) -> Any:
        self.threads.add(threading.get_ident())
        return super().items()


@pytest.mark.parametrize("count", [1, LARGE + 1])
async def test_a_large_item_is_encoded_in_another_thread(store: Any, count: int):
    """
    The loop's thread works through small items only; both are stored as they are.
    """
    one = Noting()
    await store.aput(("n",), "k", {"one": one, "rest": list(range(count))})

    assert (threading.get_ident() in one.threads) is (count == 1)
    assert one.threads != set()
    found = await store.aget(("n",), "k")
    assert found.value == {"one": {"a": 1}, "rest": list(range(count))}

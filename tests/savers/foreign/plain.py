"""Savers as other people write them: a dict in a class, one half of the methods."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio.to_thread
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from actorgraph.errors import ForeignSaverWarning


class DictSaver(BaseCheckpointSaver):
    """Keeps checkpoints in a dict of its own, by id; blocking methods only, values as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.points: dict[tuple[str, str, str], tuple[Any, Any, Any]] = {}
        self.writes: dict[tuple[str, str, str], list[tuple[str, str, Any]]] = {}

    def get_tuple(self, config):
        place = config["configurable"]
        thread, namespace = place["thread_id"], place.get("checkpoint_ns", "")
        wanted = place.get("checkpoint_id")
        ids = [i for t, ns, i in self.points if (t, ns) == (thread, namespace)]
        found = max((i for i in ids if wanted in (None, i)), default=None)
        return None if found is None else self._tuple((thread, namespace, found))

    def _tuple(self, key: tuple[str, str, str]) -> CheckpointTuple:
        checkpoint, metadata, parent = self.points[key]
        parent_config = _config(key[0], key[1], parent) if parent else None
        pending = list(self.writes.get(key, ()))
        return CheckpointTuple(_config(*key), checkpoint, metadata, parent_config, pending)

    def list(self, config, *, filter=None, before=None, limit=None):
        place = config["configurable"] if config else {}
        for key in sorted(self.points, key=lambda k: k[2], reverse=True):
            if place.get("thread_id") in (None, key[0]):
                yield self._tuple(key)

    def put(self, config, checkpoint, metadata, new_versions):
        place = config["configurable"]
        key = (place["thread_id"], place.get("checkpoint_ns", ""), checkpoint["id"])
        self.points[key] = (checkpoint, metadata, place.get("checkpoint_id"))
        return _config(*key)

    def put_writes(self, config, writes, task_id, task_path=""):
        place = config["configurable"]
        key = (place["thread_id"], place.get("checkpoint_ns", ""), place["checkpoint_id"])
        known = self.writes.setdefault(key, [])
        known.extend((task_id, channel, value) for channel, value in writes)

    def delete_thread(self, thread_id):
        for kept in (self.points, self.writes):
            for key in [key for key in kept if key[0] == thread_id]:
                del kept[key]


class AsyncDictSaver(BaseCheckpointSaver):
    """The same with async methods only; versions are floats."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = DictSaver()

    def get_next_version(self, current, channel):
        return 0.5 if current is None else current + 1.0

    async def aget_tuple(self, config):
        return self.inner.get_tuple(config)

    async def alist(self, config, *, filter=None, before=None, limit=None):
        for found in self.inner.list(config):
            yield found

    async def aput(self, config, checkpoint, metadata, new_versions):
        return self.inner.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config, writes, task_id, task_path=""):
        self.inner.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id):
        self.inner.delete_thread(thread_id)


def _config(thread: str, namespace: str, checkpoint: str) -> Any:
    place = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    return {"configurable": place}


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warning that a saver is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeignSaverWarning)
        yield


async def shut(graph) -> None:
    """Stop the actors of a graph's adapter."""
    await anyio.to_thread.run_sync(graph.checkpointer.close_blocking)

"""Where the fault tests keep checkpoints: memory, SQLite and files, each with a way to fail.

| name             | fails at                              | path through the runtime     |
|------------------|---------------------------------------|------------------------------|
| memory           | each call of the saver's port         | at once, in the run's task   |
| memory, by actor | the same                              | the persistence actor's task |
| sqlite           | each SQL statement, BEGIN, COMMIT     | the persistence actor's task |
| sqlite port      | each call of the saver's port         | the persistence actor's task |
| json lines       | each write, sync, rename, truncate    | the persistence actor's task |
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

from actorgraph import InMemorySaver, JsonlSaver, SqliteSaver
from actorgraph.savers.jsonl.files import Files
from actorgraph.storage.sqlite.connections import HopConnection
from actorgraph.testing import FaultPlan, FaultySaver, failing_connection, failing_files
from actorgraph.values.checkpoint import CheckpointTuple
from tests.faults.oracle import Oracle

STORES = ("memory", "memory, by actor", "sqlite", "sqlite port", "json lines")


class Store:
    """One store that outlives its savers; they report acknowledged saves to the oracle."""

    def __init__(self, kind: str, path: Path, oracle: Oracle) -> None:
        self.kind = kind
        self.path = path
        self.oracle = oracle
        self._memory = InMemorySaver()

    def saver(self, plan: FaultPlan | None = None) -> FaultySaver:
        """A new saver on the store, as a new process would open it."""
        told = self.oracle.stored
        if self.kind.startswith("memory"):
            immediate = self.kind == "memory"
            return FaultySaver(self._memory, plan, immediate=immediate, on_stored=told)
        if self.kind == "json lines":
            return FaultySaver(_on_files(self.path, plan), on_stored=told)
        if self.kind == "sqlite port" or plan is None:
            return FaultySaver(SqliteSaver(self.path), plan, on_stored=told)

        class Failing(SqliteSaver):
            connection_class: type[HopConnection] = failing_connection(plan)

        return FaultySaver(Failing(self.path), on_stored=told)

    def remove(self) -> None:
        for file in self.path.parent.glob(f"{self.path.name}*"):
            if file.is_dir():
                rmtree(file)
            else:
                file.unlink()


def _on_files(path: Path, plan: FaultPlan | None) -> JsonlSaver:
    if plan is None:
        return JsonlSaver(path)

    class Failing(JsonlSaver):
        files_class: type[Files] = failing_files(plan)

    return Failing(path)


async def recorded(saver: FaultySaver, config: dict[str, Any]) -> str:
    """The newest checkpoint of each namespace and its ledger, as text.

    Also those before it, back to one that holds its DeltaChannels whole.
    """
    return text_of([row async for row in saver.alist(config)])


def recorded_blocking(saver: FaultySaver, config: dict[str, Any]) -> str:
    """`recorded` by a blocking call."""
    return text_of(saver.list(config))


def text_of(rows: Iterable[CheckpointTuple]) -> str:
    found: list[str] = []
    whole: set[str] = set()
    for row in rows:
        namespace = row.config["configurable"]["checkpoint_ns"]
        if namespace not in whole:
            found.append(repr((row.checkpoint["channel_values"], row.pending_writes)))
        if "counters_since_delta_snapshot" not in row.metadata:
            whole.add(namespace)
    return " ".join(found)


def numbers(part: tuple[int, int] = (0, 1)) -> Iterator[int]:
    """1, 2, 3 ... up to a bound that no scenario reaches; or only a part of them.

    Args:
        part: which of how many equal parts.
    """
    which, parts = part
    yield from range(1 + which, 2_000, parts)
    raise AssertionError("the fault never stops firing")

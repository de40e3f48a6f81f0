"""A saver of sessions in front of another engine: an append-only file of JSON lines."""

import json
import threading
from datetime import UTC, datetime

from actorgraph.sessions import Checkpoint


class Journal:
    """Keeps checkpoints as lines; nothing of this library but the dataclass."""

    def __init__(self, path) -> None:
        self._path, self._lock = path, threading.RLock()

    def put(self, thread_id, state, *, parent_id=None, metadata=None):
        with self._lock:
            number = len(self._lines())
            row = {
                "id": f"{thread_id}-{number}",
                "thread_id": thread_id,
                "created_at": datetime.now(UTC).isoformat(),
                "state": dict(state),
                "parent_id": parent_id,
                "metadata": dict(metadata or {}),
            }
            for part in ("state", "metadata"):
                _refuse(row[part], part)
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            return self._point(json.loads(json.dumps(row)))

    def get(self, thread_id, checkpoint_id=None):
        found = self.list(thread_id, limit=10**9)
        return next((p for p in found if checkpoint_id in (None, p.id)), None)

    def list(self, thread_id, *, before=None, limit=10):
        rows = [row for row in self._lines() if row["thread_id"] == thread_id]
        names = [row["id"] for row in rows]
        if before is not None:
            rows = rows[: names.index(before)] if before in names else []
        return [self._point(row) for row in rows[::-1][: max(limit, 0)]]

    def delete(self, thread_id):
        with self._lock:
            left = [row for row in self._lines() if row["thread_id"] != thread_id]
            self._path.write_text("".join(json.dumps(row) + "\n" for row in left))

    def _lines(self):
        with self._lock:  # else a line may be half there
            text = self._path.read_text() if self._path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def _point(self, row):
        return Checkpoint(**row | {"created_at": datetime.fromisoformat(row["created_at"])})


def _refuse(value, path):
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}")
            _refuse(part, f"{path}[{key!r}]")
    elif isinstance(value, list):
        for part in value:
            _refuse(part, path)
    elif value != value or not isinstance(value, str | int | float | bool | None):  # noqa: PLR0124
        raise TypeError(f"{path} is {value!r}")

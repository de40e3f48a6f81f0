"""LimitedSaver: saves that are too large are logged, or refused, each alone."""

from collections.abc import Sequence
from typing import Any

from actorgraph.api.operations.requests import bytes_of
from actorgraph.api.operations.wrapping import WrappedSaver
from actorgraph.errors import CheckpointSizeError, InvalidConfigError
from actorgraph.ports import Saver
from actorgraph.runtime.log import event
from actorgraph.values.commits import CommitOutcome, Refused, Request


class LimitedSaver(WrappedSaver):
    """Limits the bytes of one save: what a superstep adds to the store.

    A save above the hard limit fails its run with CheckpointSizeError; the checkpoint before it
    stays the newest, and other runs don't notice. `acheckpoint_bytes` tells how large a whole
    checkpoint is.

    Args:
        saver: the saver to limit.
        max_bytes: the hard limit, encoded, before compression or encryption adds or takes any
            where these are done in the file; None for none.
        warn_bytes: above it a warning is logged; None for none.
    Raises:
        InvalidConfigError: a limit is not positive, or the soft one above the hard one.
    """

    def __init__(
        self, saver: Saver, *, max_bytes: int | None = None, warn_bytes: int | None = None
    ) -> None:
        super().__init__(saver)
        for limit in (max_bytes, warn_bytes):
            if limit is not None and (type(limit) is not int or limit < 1):
                raise InvalidConfigError(f"a limit of {limit!r} bytes", do="use a number from 1")
        if max_bytes is not None and warn_bytes is not None and warn_bytes > max_bytes:
            raise InvalidConfigError(
                f"warn_bytes={warn_bytes} is above max_bytes={max_bytes}", do="swap them"
            )
        self.max_bytes = max_bytes
        self.warn_bytes = warn_bytes

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        refused = self._refused(batch)
        left = [request for place, request in enumerate(batch) if place not in refused]
        return _together(len(batch), refused, await self.saver.commit(left) if left else [])

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """`commit` of an immediate saver."""
        refused = self._refused(batch)
        left = [request for place, request in enumerate(batch) if place not in refused]
        return _together(len(batch), refused, super().commit_now(left) if left else [])

    def _refused(self, batch: Sequence[Request]) -> dict[int, Refused]:
        found: dict[int, Refused] = {}
        for place, request in enumerate(batch):
            size = bytes_of(request)
            fields: dict[str, Any] = {"thread_id": request.thread_id, "bytes": size}
            if self.max_bytes is not None and size > self.max_bytes:
                event("error", "save.too_large", **fields, limit=self.max_bytes)
                found[place] = Refused(_too_large(request, size, self.max_bytes))
            elif self.warn_bytes is not None and size > self.warn_bytes:
                event("warning", "save.large", **fields, limit=self.warn_bytes)
        return found


def _together(
    size: int, refused: dict[int, Refused], others: Sequence[CommitOutcome]
) -> list[CommitOutcome]:
    stored = iter(others)
    return [refused.get(place) or next(stored) for place in range(size)]


def _too_large(request: Request, size: int, limit: int) -> CheckpointSizeError:
    return CheckpointSizeError(
        f"a save of thread {request.thread_id!r} has {size:,} bytes; the limit is {limit:,}",
        do="keep large values elsewhere and their names in the state, or raise max_bytes",
    )

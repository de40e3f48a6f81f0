"""LimitedSaver: logs or refuses saves that are too large."""

from collections.abc import Sequence
from typing import Any

from actorgraph.api.savers.requests import bytes_of
from actorgraph.api.savers.wrappers.wrapped import WrappedSaver
from actorgraph.errors import CheckpointSizeError, InvalidConfigError
from actorgraph.ports import Saver
from actorgraph.runtime.log import event
from actorgraph.values.commits import CommitOutcome, Refused, Request


class LimitedSaver(WrappedSaver):
    """Limits the bytes of one save, i.e. what a superstep adds.

    A save above the hard limit fails its run with CheckpointSizeError; the checkpoint before it
    stays the newest, and other runs are not affected. `acheckpoint_bytes` returns the size of a
    whole checkpoint.

    Args:
        saver: the saver to limit.
        max_bytes: the hard limit of encoded bytes, before what the backend itself compresses or
            encrypts; None for none.
        warn_bytes: the size above which a warning is logged; None for none.
    Raises:
        InvalidConfigError: a limit is < 1, or `warn_bytes` is above `max_bytes`.
    """

    def __init__(
        self, saver: Saver, *, max_bytes: int | None = None, warn_bytes: int | None = None
    ) -> None:
        super().__init__(saver)
        for name, limit in (("max_bytes", max_bytes), ("warn_bytes", warn_bytes)):
            if limit is not None and (type(limit) is not int or limit < 1):
                raise InvalidConfigError(
                    f"{name} must be an integer >= 1 or None, got {limit!r}", do="use 1 or more"
                )
        if max_bytes is not None and warn_bytes is not None and warn_bytes > max_bytes:
            raise InvalidConfigError(
                f"warn_bytes must be <= max_bytes, got {warn_bytes} and {max_bytes}",
                do="swap them",
            )
        self.max_bytes = max_bytes
        self.warn_bytes = warn_bytes

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        refused, left = self._split(batch)
        return _merge_outcomes(len(batch), refused, await self.saver.commit(left) if left else [])

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """`commit` of an immediate saver."""
        refused, left = self._split(batch)
        return _merge_outcomes(len(batch), refused, super().commit_now(left) if left else [])

    def _split(self, batch: Sequence[Request]) -> tuple[dict[int, Refused], list[Request]]:
        """Return the refusals by place, and the requests to commit.

        One oversized save must not fail the others that share its batch.
        """
        refused = self._refused(batch)
        return refused, [each for place, each in enumerate(batch) if place not in refused]

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


def _merge_outcomes(
    size: int, refused: dict[int, Refused], others: Sequence[CommitOutcome]
) -> list[CommitOutcome]:
    stored = iter(others)
    return [refused.get(place) or next(stored) for place in range(size)]


def _too_large(request: Request, size: int, limit: int) -> CheckpointSizeError:
    return CheckpointSizeError(
        f"a save of thread {request.thread_id!r} has {size:,} bytes; the limit is {limit:,}",
        do="store large values elsewhere and references in the state, or increase max_bytes",
    )

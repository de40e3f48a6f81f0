"""Figures of the persistence actor: its statistics, and the histograms in them."""

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Distribution(msgspec.Struct, frozen=True):
    """A snapshot of a histogram.

    Attributes:
        bounds: upper bounds of the bins, rising; a value equal to a bound counts in its bin.
        counts: values per bin; the last count is of those above the last bound.
        total: the sum of all values.
    """

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    total: float = 0.0


class Histogram:
    """Counts values in bins. Written by one thread only."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def distribution(self) -> Distribution:
        """A snapshot of the counts."""
        return Distribution(self._bounds, tuple(self._counts), self._total)


class PersistenceStatistics(msgspec.Struct, frozen=True):
    """Figures of the persistence actor; times and distributions are 0 for immediate savers.

    Attributes:
        messages: requests committed.
        commits: batches committed.
        refused: requests refused.
        waiting: requests in the mailbox now.
        batch_size_mean: requests per batch, on average.
        batch_size_max: requests in the largest batch.
        active_runs: runs that hold a claim in this process.
        commit_s: seconds that all batches took.
        last_s: seconds that the last batch took.
        age_s: seconds since the oldest request of the batch in flight was handed over.
        commits_s: distribution of the seconds per batch.
        sizes: distribution of the requests per batch.
        lags_s: distribution of the seconds from the hand-over of a batch's oldest request until
            it was durable.
    """

    messages: int
    commits: int
    refused: int
    waiting: int
    batch_size_mean: float
    batch_size_max: int
    active_runs: int
    commit_s: float = 0.0
    last_s: float = 0.0
    age_s: float = 0.0
    commits_s: Distribution = Distribution()
    sizes: Distribution = Distribution()
    lags_s: Distribution = Distribution()

"""Figures of the persistence actor."""

import msgspec

from actorgraph.runtime.histogram import Distribution


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

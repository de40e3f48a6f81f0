"""What a persistence actor tells of its work."""

import msgspec

from actorgraph.runtime.histogram import Distribution


class PersistenceStatistics(msgspec.Struct, frozen=True):
    """What the persistence actor has done.

    Attributes:
        messages, commits, refused: requests taken, batches committed, requests refused.
        waiting: requests in the mailbox now.
        batch_size_mean, batch_size_max: requests per batch.
        commit_s, last_s: seconds that all batches, and the last one, took; 0 for immediate savers.
        active_runs: runs that hold a claim in this process.
        age_s: seconds since the oldest request of the batch in flight was handed over.
        commits_s: seconds of each batch. sizes: requests of each. lags_s: seconds from the
            hand-over of a batch's oldest request until it was durable. Not of immediate savers.
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

"""The limits of an ActorSystem, and the errors with which it refuses runs."""

import msgspec


class SystemLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an `ActorSystem`; see there. Counts are of runs, times in seconds."""

    max_runs: int = 10_000
    max_queued: int = 10_000
    max_waiting: int = 100
    max_unsaved_bytes: int = 256 * 1024 * 1024
    keep_ended: int = 1000
    drain_timeout_s: float = 30.0
    retry_after_s: float = 1.0
    lease_s: float = 15.0
    attempts_max: int = 3

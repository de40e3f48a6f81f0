"""Many runs in one process: `ActorSystem`, its runs and metrics, ids of threads.

Nothing is defined here.
"""

from actorgraph.api.batches.batch_options import BatchOptions
from actorgraph.api.batches.batch_results import BatchSummary, ThreadResult
from actorgraph.api.batches.thread_batch import BlockingThreadBatch, ThreadBatch
from actorgraph.api.system.prometheus import metrics_registry
from actorgraph.api.system.run_arguments import RunArguments
from actorgraph.api.system.run_handle import Run, RunEvents
from actorgraph.api.system.run_search import RunPage, SystemOwner
from actorgraph.api.system.sharded import ShardedSystem
from actorgraph.api.system.system import ActorSystem
from actorgraph.api.system.thread_finder import ThreadInfo
from actorgraph.api.thread_ids import new_thread_id, parse_thread_id, thread_id_for
from actorgraph.rules.system.sharding import ShardMap
from actorgraph.rules.thread_batches import BatchCounts
from actorgraph.runtime.system.parked import RetriedRuns
from actorgraph.values.systems import RunEvent

__all__ = [
    "ActorSystem",
    "BatchCounts",
    "BatchOptions",
    "BatchSummary",
    "BlockingThreadBatch",
    "RetriedRuns",
    "Run",
    "RunArguments",
    "RunEvent",
    "RunEvents",
    "RunPage",
    "ShardMap",
    "ShardedSystem",
    "SystemOwner",
    "ThreadBatch",
    "ThreadInfo",
    "ThreadResult",
    "metrics_registry",
    "new_thread_id",
    "parse_thread_id",
    "thread_id_for",
]

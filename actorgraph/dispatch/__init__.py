"""Dispatch between processes: adapters of engines that carry hints about runs.

`InMemoryDispatcher` needs nothing, `PGQueuerDispatcher` the extra `pgqueuer`, `NATSDispatcher` the
extra `nats`. `ports.Dispatcher` is the protocol; `actorgraph.testing.dispatcher_checks` has the
checks for an adapter of your own.
"""

from actorgraph.dispatch.memory import InMemoryDispatcher
from actorgraph.dispatch.nats import NATSDispatcher
from actorgraph.dispatch.pgqueuer import PGQueuerDispatcher

__all__ = ["InMemoryDispatcher", "NATSDispatcher", "PGQueuerDispatcher"]

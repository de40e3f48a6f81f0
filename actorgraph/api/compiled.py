"""What every method of a compiled graph stands on: its plan, its saver, and how a run is set up."""

from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Any, cast

from actorgraph.api import config as configs
from actorgraph.codec import Codec
from actorgraph.errors import SaverRequiredError
from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.hosting import Host, host_of
from actorgraph.runtime.runs import Launch
from actorgraph.values.policies import All, Durability, DurabilityMode

Config = Mapping[str, Any]
NodeNames = All | Sequence[str] | None


class CompiledBase:
    """The plan and the saver of a compiled graph. Immutable; `CompiledStateGraph` is the whole."""

    def __init__(
        self, plan: Plan, checkpointer: Saver | None, durability: Durability = Durability.SYNC
    ) -> None:
        self.plan = plan
        self.checkpointer = checkpointer
        self.durability = durability
        own = getattr(checkpointer, "codec", None)
        codec = cast("Codec", own) if own is not None else Codec()
        self._codec = codec.with_types(plan.types)

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.plan.name

    @property
    def graph_id(self) -> str:
        """Tells this graph's stored checkpoints from another's."""
        return self.plan.graph_id

    def _launch(
        self,
        given: Any,
        config: Config | None,
        *,
        durability: DurabilityMode | None,
        before: NodeNames,
        after: NodeNames,
        output_keys: tuple[str, ...],
        modes: Sequence[str] = (),
        broadcast: Broadcast | None = None,
    ) -> Launch:
        address = configs.address_of(config, needs_thread=self.checkpointer is not None)
        policy = configs.policy_of(
            self.plan,
            config,
            durability=configs.durability_of(durability, self.durability),
            modes=modes,
            output_keys=output_keys,
            interrupt_before=before,
            interrupt_after=after,
        )
        return Launch(
            plan=self.plan,
            policy=policy,
            address=address,
            given=given,
            config=dict(config or {}),
            host=None if self.checkpointer is None else host_of(self.checkpointer),
            codec=self._codec,
            context=copy_context(),
            run=IDS.run(),
            broadcast=broadcast,
        )

    def _saver_host(self, what: str) -> Host:
        if self.checkpointer is None:
            raise SaverRequiredError(
                f"No checkpointer set: {what} reads checkpoints, and graph {self.name!r} was "
                "compiled without a checkpointer",
                do="pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')",
            )
        return host_of(self.checkpointer)

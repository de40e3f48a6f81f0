"""What a compiled graph tells about itself: its parts, and the JSON schemas of its surface."""

from collections.abc import Mapping, Sequence
from typing import Any

from actorgraph.api.compiled import CompiledBase
from actorgraph.channels import Channel
from actorgraph.plan.graph import NodePlan
from actorgraph.plan.json_schema import channels_schema, described_type, json_schema
from actorgraph.values.constants import ROOT, START

_Keys = str | Sequence[str]


class SurfaceMethods(CompiledBase):
    """Attributes and schemas that programs read. Nothing here runs the graph."""

    @property
    def channels(self) -> Mapping[str, Channel[Any]]:
        """Every channel by name, those of edges too."""
        return self.plan.channels

    @property
    def nodes(self) -> Mapping[str, NodePlan]:
        """Every node by name, `__start__` too."""
        return self.plan.nodes

    @property
    def input_channels(self) -> _Keys:
        """Where an input goes: `__start__`, or the channels that a `Pregel` names."""
        entry = self.plan.entry
        if entry is None:
            return START
        names = sorted(entry.writes)
        return names[0] if entry.bare else names

    @property
    def output_channels(self) -> _Keys:
        """What `ainvoke` returns: a list of keys, or the one key whose bare value it returns."""
        return _shown(self.plan.output_keys, bare=self.plan.bare_output)

    @property
    def stream_channels(self) -> _Keys:
        """What snapshots show: a list of keys, or the one key whose bare value they show."""
        return _shown(self.plan.state_keys, bare=self.plan.bare_state)

    @property
    def input_schema(self) -> Any:
        """The class of what a run takes, as it was declared."""
        return self.plan.sources.input

    @property
    def output_schema(self) -> Any:
        """The class of what a run returns, as it was declared."""
        return self.plan.sources.output

    @property
    def context_schema(self) -> Any:
        """The class of `context=`, as it was declared; None without one."""
        return self.plan.sources.context

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of what a run takes."""
        if self.plan.entry is None:
            return json_schema(self.input_schema, title=f"{self.name}Input")
        return self._schema_of(self.input_channels, "Input")

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of what `ainvoke` returns."""
        if self.plan.entry is None:
            return json_schema(self.output_schema, title=f"{self.name}Output")
        return self._schema_of(self.output_channels, "Output")

    def get_state_jsonschema(self) -> dict[str, Any]:
        """The JSON schema of the state, private keys of nodes left out."""
        if self.plan.entry is None:
            return json_schema(self.plan.sources.state, title=f"{self.name}State")
        return self._schema_of(self.stream_channels, "State")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON schema of `context=`; None where the graph declares none."""
        declared = self.context_schema
        return None if declared is None else json_schema(declared, title=f"{self.name}Context")

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """The JSON schema of a call's config, with the context as its `configurable`.

        Args:
            include: other keys of a config to describe, e.g. `["tags", "metadata"]`.
        """
        kinds = {key: _CONFIG_KEYS[key] for key in include or () if key in _CONFIG_KEYS}
        described = channels_schema(kinds, title=f"{self.name}Config")
        context = self.get_context_jsonschema()
        if context is not None:
            definitions = {**context.pop("$defs", {}), **described.pop("$defs", {})}
            described["properties"]["configurable"] = context
            if definitions:
                described["$defs"] = definitions
        return described

    def _schema_of(self, keys: _Keys, what: str) -> dict[str, Any]:
        title, channels = f"{self.name}{what}", self.plan.channels
        if isinstance(keys, str):
            return {"title": title, **described_type(channels[keys].typ, {})}
        return channels_schema({key: channels[key].typ for key in keys}, title=title)


_CONFIG_KEYS: dict[str, Any] = {
    "tags": list[str],
    "metadata": dict[str, Any],
    "run_name": str,
    "run_id": str,
    "max_concurrency": int,
    "recursion_limit": int,
    "configurable": dict[str, Any],
}


def _shown(keys: tuple[str, ...], *, bare: bool) -> _Keys:
    return keys[0] if bare or keys == (ROOT,) else list(keys)

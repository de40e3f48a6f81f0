"""The same graph with something bound to it: a config, another name, another saver."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from actorgraph.api import config as configs
from actorgraph.api.adopting import adopted
from actorgraph.api.compiled import CompiledBase, Config
from actorgraph.api.registry import stores_of
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.values.configs import merge_configs

_COPIED = ("name", "checkpointer", "store", "stores", "config")


class BindingMethods(CompiledBase):
    """Each method gives a new graph; the one that it is called on stays as it is."""

    def with_config(self, config: Config | None = None, **entries: Any) -> Self:
        """The graph with a config under that of every call.

        `configurable` and `metadata` are merged by key, `tags` and `callbacks` are added up, and
        of any other entry the call's wins.

        Args:
            config, entries: e.g. `with_config({"tags": ["a"]}, recursion_limit=50)`.
        Raises:
            InvalidConfigError: it is no dict.
        """
        return self._changed(config=merge_configs(self.config, configs.checked(config), entries))

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy of the graph.

        Args:
            update: other values for `name`, `checkpointer`, `store`, `stores` or `config`.
        Raises:
            InvalidConfigError: another name stands in `update`.
        """
        changes = dict(update or {})
        for name in changes:
            if name not in _COPIED:
                raise InvalidConfigError(
                    f"copy() can't change {name!r} of a compiled graph",
                    do=f"{did_you_mean(name, _COPIED)}; or change the builder and compile again",
                )
        if "name" in changes:
            changes["plan"] = replace(self.plan, name=changes.pop("name"))
        if "checkpointer" in changes:
            changes["checkpointer"] = adopted(changes["checkpointer"])
            changes["_codec"] = self._codec_for(changes["checkpointer"])
        if "stores" in changes:
            changes["stores"] = stores_of(changes["stores"])
        return self._changed(**changes)

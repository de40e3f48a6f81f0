"""Copies of a compiled graph with another config, name or saver."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from actorgraph.api import config as configs
from actorgraph.api.adopting import adapt_checkpointer
from actorgraph.api.compiled import CompiledBase, Config
from actorgraph.api.registry import stores_of
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.values.configs import merge_configs

_COPIED = ("name", "checkpointer", "store", "stores", "config")


class BindingMethods(CompiledBase):
    """Methods that return a changed copy; the graph that they are called on stays as it is."""

    def with_config(self, config: Config | None = None, **entries: Any) -> Self:
        """Return a copy of the graph with a default config, which a call's config is merged over.

        `configurable` and `metadata` are merged by key, `tags` and `callbacks` are concatenated,
        any other entry of the call replaces the default.

        Args:
            config: entries to bind, e.g. `{"tags": ["a"]}`.
            entries: more of them, e.g. `recursion_limit=50`.
        Raises:
            InvalidConfigError: it is not a dict.
        """
        return self._changed(config=merge_configs(self.config, configs.checked(config), entries))

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy of the graph.

        Args:
            update: new values for `name`, `checkpointer`, `store`, `stores` or `config`.
        Raises:
            InvalidConfigError: `update` has another key.
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
            changes["checkpointer"] = adapt_checkpointer(changes["checkpointer"])
            changes["_codec"] = self._codec_for(changes["checkpointer"])
        if "stores" in changes:
            changes["stores"] = stores_of(changes["stores"])
        return self._changed(**changes)

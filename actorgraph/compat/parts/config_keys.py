"""Keys of a config's `configurable` that packages read."""

from typing import Final

CONF: Final = "configurable"
CONFIG_KEY_READ: Final = "__pregel_read"
CONFIG_KEY_SEND: Final = "__pregel_send"
CONFIG_KEY_RUNTIME: Final = "__pregel_runtime"

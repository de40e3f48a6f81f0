"""Keys of a config's `configurable` that packages read."""

from typing import Final

CONF: Final = "configurable"
CONFIG_KEY_READ: Final = "__pregel_read"
CONFIG_KEY_READ_STATE: Final = "__pregel_read_state"
CONFIG_KEY_SEND: Final = "__pregel_send"
CONFIG_KEY_RUNTIME: Final = "__pregel_runtime"
CONFIG_KEY_THREAD_ID: Final = "thread_id"
CONFIG_KEY_CHECKPOINT_ID: Final = "checkpoint_id"
CONFIG_KEY_CHECKPOINT_NS: Final = "checkpoint_ns"
CONFIG_KEY_CHECKPOINT_MAP: Final = "checkpoint_map"

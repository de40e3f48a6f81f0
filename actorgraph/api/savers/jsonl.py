"""JsonlSaver: checkpoints in JSON Lines files, which people and other programs can read."""

import os

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol
from actorgraph.savers.jsonl.saver import JsonlBackend


class JsonlSaver(HostedSaver, JsonlBackend):
    """Keeps checkpoints in files, one for each thread, durable before they are acknowledged.

    Each line is a JSON object, so `jq` and other programs read the files. Lines are appended;
    only copies and removals rewrite a file. One process at a time may have the folder open, with
    any number of savers.

    Use it as `async with JsonlSaver(path) as saver`, as `with JsonlSaver(path) as saver` in
    sync code, or without opening it, e.g. at module level.

    Args:
        path: the folder, created with mode 0700 if it doesn't exist; its files have 0600.
        codec: how values are stored; default one with no types beyond the graph's own. Its values
            are always JSON text here. A serializer of LangGraph's kind, with `dumps_typed`
            and `loads_typed`, works too; its bytes are stored as base64.
    Raises:
        InvalidConfigError: the path is empty.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, codec: Codec | SerializerProtocol | None = None
    ) -> None:
        JsonlBackend.__init__(self, path, codec=codec)


__all__ = ["JsonlSaver"]

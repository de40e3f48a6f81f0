"""What a program didn't declare to be stored is in no byte of the store, in no log and no chunk."""

import logging
import stat

import pytest

from actorgraph import Codec
from tests.graphs import at, in_a_row, writer

CANARY = "canary-7f3a"


def everything(value):
    """The text of whatever a query of a saver's port returns."""
    return repr(value)


async def test_the_config_of_a_call_is_not_stored(saver, store, caplog):
    """
    Values in `configurable`, callers' headers, and secrets by name in the metadata are in no byte
    of the store, no listing, no log line and no chunk; declared metadata is.
    """
    graph = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)
    config = {
        **at("t", api_key=f"{CANARY}-1", password=f"{CANARY}-2", user={"token": f"{CANARY}-3"}),
        "metadata": {"tenant": "declared-tenant", "api_token": f"{CANARY}-4"},
        "headers": {"Authorization": f"{CANARY}-5"},
    }
    with caplog.at_level(logging.DEBUG):
        chunks = [
            chunk
            async for chunk in graph.astream(
                {"foo": "x"}, config, stream_mode=["updates", "values", "tasks", "checkpoints"]
            )
        ]
    found = [item async for item in saver.alist(at())]
    history = [point async for point in graph.aget_state_history(at())]
    texts = {
        "listing": everything([found, history, await saver.alist_metadata("t")]),
        "log": caplog.text,
        "chunks": everything(chunks),
    }
    if store.kind == "sqlite":
        files = store.path.parent.glob(f"{store.path.name}*")
        texts["files"] = "".join(file.read_bytes().decode("latin1") for file in files)

    assert [name for name, text in texts.items() if CANARY in text] == []
    assert "declared-tenant" in texts["listing"]


async def test_files_are_for_their_owner_only(store, tmp_path):
    """
    The database, its log and its index are made with mode 0600.
    """
    if store.kind != "sqlite":
        pytest.skip("it keeps no file")
    async with store.saver() as saver:
        saver.codec = Codec()
        await in_a_row({"a": writer("a")}, checkpointer=saver).ainvoke({"foo": "x"}, at())
        files = list(tmp_path.glob("runs.db*"))
        modes = {stat.S_IMODE(file.stat().st_mode) for file in files}

    assert len(files) >= 2
    assert modes == {0o600}

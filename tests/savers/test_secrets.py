"""Undeclared data is in no byte of the store, in no log and no chunk."""

import logging

import pytest

from tests.runtime.test_spans import traces
from tests.support.graphs import at, in_a_row, writer
from tests.support.stored_bytes import KINDS, bytes_of, modes_of

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

__all__ = ["traces"]
CANARY = "canary-7f3a"


def fails(state, config):
    """Raise an error beside a secret."""
    token = config["configurable"]["api_key"]
    raise ValueError("the service refused" if token else "")


@pytest.mark.promise("T34")
async def test_the_config_of_a_call_is_not_stored(
    saver, store, caplog, capsys, *, traces, monkeypatch
):
    """
    Values in `configurable`, callers' headers, secrets by name in the metadata, the environment,
    and the locals of a node that fails are in no byte of the store, no listing, no log line, no
    span and no chunk; declared metadata is.
    """
    monkeypatch.setenv("SERVICE_TOKEN", f"{CANARY}-6")
    graph = in_a_row({"a": writer("a"), "b": writer("b"), "fails": fails}, checkpointer=saver)
    config = {
        **at("t", api_key=f"{CANARY}-1", password=f"{CANARY}-2", user={"token": f"{CANARY}-3"}),
        "metadata": {"tenant": "declared-tenant", "api_token": f"{CANARY}-4"},
        "headers": {"Authorization": f"{CANARY}-5"},
    }
    chunks = []

    async def run() -> None:
        modes = ["updates", "values", "tasks", "checkpoints"]
        async for chunk in graph.astream({"foo": "x"}, config, stream_mode=modes):
            chunks.append(chunk)  # noqa: PERF401 - those before the error count

    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="the service refused"):
        await run()
    found = [item async for item in saver.alist(at())]
    points = [point async for point in graph.aget_state_history(at())]
    history = [(*point, *map(tuple, point.tasks)) for point in points]  # whole, unlike their repr
    texts = {
        "listing": repr([found, history, await saver.alist_metadata("t")]),
        "log": caplog.text + "".join(capsys.readouterr()),
        "chunks": repr(chunks),
        "spans": "".join(span.to_json() for span in traces.spans),
    }
    if store.on_disk:
        texts["disk"] = bytes_of(store).decode("latin1")
        assert "declared-tenant" in texts["disk"]

    assert [name for name, text in texts.items() if CANARY in text] == []
    assert "declared-tenant" in texts["listing"]
    assert "the service refused" in texts["listing"]
    assert "node" in texts["spans"]


@pytest.mark.promise("T34")
@pytest.mark.parametrize("store", KINDS[:2], indirect=True)
async def test_files_are_for_their_owner_only(saver, store):
    """
    Files are made with mode 0600, folders with 0700.
    """
    await in_a_row({"a": writer("a")}, checkpointer=saver).ainvoke({"foo": "x"}, at())
    modes = modes_of(store)

    assert modes == {(False, "0o600")} | ({(True, "0o700")} if store.kind == "jsonl" else set())

"""Checks of hostile ids: each is refused, or addresses its own checkpoints and no others."""

from typing import Any

from actorgraph.testing.conformance.builders import (
    at,
    chain,
    checkpoint,
    metadata,
    new_task,
    values_of,
)
from actorgraph.testing.conformance.harness import Bench, Public, at_once, check, holds, same
from actorgraph.testing.conformance.list_checks import INJECTIONS

_NAMES = (
    *(
        ".",
        "..",
        "../x",
        "../../x",
        "/x",
        "/etc/passwd",
        "C:\\x",
        "\\\\host\\x",
        "x/",
        "x\\",
        "x/../y",
    ),
    *("x\0", "\0", "x\0y", "\x7f", "\x1b[2J", "\u202ex", "\ufeff", "\u200b", "x ", " x", "x."),
    *("con", "NUL", "aux.txt", "x:y", "x*", "x?", "<x>", "x|y", "~", "~root", "-rf", "--", "$HOME"),
    *("%2e%2e", "%00", "%", "a%b", "a_b", "aXb", "A", "a", "é", "e\u0301", "ß", "SS", "ss", "K"),
    *(
        "\u212a",
        "0",
        "00",
        "0.0",
        "1e1",
        "None",
        "x.jsonl",
        "x.writes",
        "x.lock",
        "x.tmp",
        "\ud800",
    ),
    *("x" * 255, "x" * 254 + "y", "漢" * 85, "漢" * 100, "x" * 256, "y" * 300, "z" * 100_000),
    *INJECTIONS,
)
"""Names that are invalid for files, or equal to another name in some file system or database."""

IDS = tuple(dict.fromkeys(_NAMES))


async def _stored(saver: Public, places: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Store a checkpoint at each config; return number -> config of those not refused."""
    kept = dict[int, dict[str, Any]]()

    async def store(item: tuple[int, dict[str, Any]]) -> None:
        number, config = item
        try:
            await saver.put(config, checkpoint({"x": number}), metadata(number))
        except (ValueError, TypeError):
            return
        kept[number] = config

    await at_once(store, enumerate(places))
    return kept


@check("hostile ids")
async def threads(bench: Bench) -> None:
    """Each thread id raises ValueError, or has exactly the checkpoints stored under it."""
    async with bench.public() as saver:
        kept = await _stored(saver, [at(name) for name in IDS])
        holds(len(kept) >= 20, "most of these ids are refused")
        await _all_there(saver, kept)
        if not (hasattr(saver.saver, "adelete_thread") or hasattr(saver.saver, "delete_thread")):
            return
        gone = {number: kept.pop(number) for number in [*kept][::2]}

        async def delete(config: dict[str, Any]) -> None:
            name = config["configurable"]["thread_id"]
            await saver.call("delete_thread", name)
            same(await saver.get(config), None, f"the deleted thread {name!r:.80}")

        await at_once(delete, gone.values())
        await _all_there(saver, kept)


async def _all_there(saver: Public, kept: dict[int, dict[str, Any]]) -> None:
    async def read(item: tuple[int, dict[str, Any]]) -> None:
        number, config = item
        name = config["configurable"]["thread_id"]
        found = await saver.get(config)
        same(values_of(found), {"x": number}, f"thread {name!r:.80}")
        same(found.config["configurable"]["thread_id"], name, "the thread id that is read")
        same(len(await saver.list(config)), 1, f"the list of {name!r:.80}")

    await at_once(read, kept.items())


@check("hostile ids")
async def namespaces(bench: Bench) -> None:
    """Each namespace raises ValueError, or has exactly the checkpoints stored in it."""
    async with bench.public() as saver:
        await chain(saver, 1)
        kept = await _stored(saver, [at("t", name) for name in IDS if name])

        async def read(item: tuple[int, dict[str, Any]]) -> None:
            number, config = item
            name = config["configurable"]["checkpoint_ns"]
            found = await saver.get(config)
            same(values_of(found), {"x": number}, f"namespace {name!r:.80}")

        await at_once(read, kept.items())
        same(values_of(await saver.get(at())), {"x": 0}, "the root")


@check("hostile ids")
async def channels(bench: Bench) -> None:
    """A channel of any name is stored, with pending writes, or raises ValueError."""

    async def one(item: tuple[int, str]) -> None:
        number, name = item
        try:
            config = await saver.put(at(), checkpoint({name: number}), metadata(number))
            await saver.put_writes(config, [(name, [number])], new_task())
        except (ValueError, TypeError):
            return
        found = await saver.get(config)
        same(values_of(found), {name: number}, f"channel {name!r:.80}")
        same(tuple(found.pending_writes[0])[1:], (name, [number]), "its write")

    async with bench.public() as saver:
        await at_once(one, enumerate(IDS))


@check("hostile ids")
async def a_refused_id_leaves_nothing(bench: Bench) -> None:
    """Ids that are not text change nothing, whether they are refused or not."""
    async with bench.public() as saver:
        await chain(saver, 1)
        for wrong in ({"a": 1}, ["t"], b"t", 1.5, object(), "z" * 10_000_000):
            try:
                place: dict[str, Any] = {"thread_id": wrong, "checkpoint_ns": ""}
                await saver.put({"configurable": place}, checkpoint({"x": 9}), metadata(9))
            except Exception:  # noqa: BLE001, S112 - any refusal will do
                continue
        same(values_of(await saver.get(at())), {"x": 0}, "the thread that was there")

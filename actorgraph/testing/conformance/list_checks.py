"""Checks of lists: order, filter, before, limit, pages, hostile text in filters."""

from contextlib import aclosing, suppress
from itertools import product
from typing import Any

from actorgraph.testing.conformance.builders import (
    THREAD,
    Ids,
    at,
    chain,
    checkpoint,
    commit_batch,
    metadata,
    outside,
    page,
    steps,
    whole,
)
from actorgraph.testing.conformance.harness import Bench, at_once, check, holds, same
from actorgraph.values.commits import StoredCheckpoint
from actorgraph.values.retention import CopyThread, DeleteCheckpoints

INJECTIONS = (
    *(
        "'",
        '"',
        "`",
        "\\",
        "''",
        '""',
        "')",
        "');--",
        "' OR 1=1 --",
        '" OR ""="',
        "1; DROP TABLE x",
    ),
    *("%", "_", "$", "$.a", "a.b", "a[0]", "a']", 'a"]', "a' || 'b", "--", "/*", "*/", ";", "?"),
    *(":x", "%s", "{}", "\n", "\r\n", "\t", " ", "", "#", "x\ny", "null", "true", "[]", "é", "😀"),
)
"""Text with a meaning in SQL, JSON paths, LIKE patterns, format strings or lines of a file."""

SAFE = "plain"


@check("filters")
async def newest_first(bench: Bench) -> None:
    """A list has the newest first; `filter`, `before` and `limit` narrow it and combine."""
    async with bench.public() as saver:
        configs = list[dict[str, object]]()
        config = at()
        for step in range(6):
            source = "loop" if step % 2 else "update"
            point = checkpoint({"x": step}, version=step + 1)
            config = await saver.put(config, point, metadata(step, source, half=step // 3))
            configs.append(config)
        loop, half = {"source": "loop"}, {"half": 1}
        same(await steps(saver, at()), [5, 4, 3, 2, 1, 0], "all")
        same(await steps(saver, at(), limit=2), [5, 4], "limit")
        same(await steps(saver, at(), before=configs[2]), [1, 0], "before")
        same(await steps(saver, at(), filter=loop), [5, 3, 1], "filter")
        same(await steps(saver, at(), filter={**loop, **half}), [5, 3], "two filters")
        same(await steps(saver, at(), filter=loop, limit=1), [5], "filter and limit")
        same(
            await steps(saver, at(), filter=loop, before=configs[5], limit=1),
            [3],
            "all of them: rows that the filter excludes don't count",
        )
        same(await steps(saver, at(), filter={"user": "nobody"}), [], "a filter of nothing")


@check("filters")
async def every_thread(bench: Bench) -> None:
    """Without a config a list has the checkpoints of every thread."""
    async with bench.public() as saver:
        for thread in ("one", "two"):
            await chain(saver, 2, at(thread))
        found = await saver.list(None)
    names = sorted(t.config["configurable"]["thread_id"] for t in found)
    same(names, ["one", "one", "two", "two"], "the threads")


@check("filters")
async def a_list_may_be_left_early(bench: Bench) -> None:
    """After reading only the first item of a list the saver is usable."""
    async with bench.public() as saver:
        await chain(saver, 5)
        saver.require_methods("list")
        if hasattr(saver.saver, "alist"):
            async with aclosing(saver.saver.alist(at())) as pages:
                found = await anext(pages)
                same(found.metadata["step"], 4, "the first of a list")
        await chain(saver, 1, at("other"))
        same(len(await saver.list(at())), 5, "checkpoints")


@check("filters")
async def hostile_keys_and_values(bench: Bench) -> None:
    """A filter matches exactly its key and value, or is refused; no text is executed."""
    texts = INJECTIONS
    kept = dict[str, int]()

    async def store(item: tuple[int, str]) -> None:
        number, text = item
        about = metadata(number, **{f"k{text}": text, SAFE: text})
        with suppress(ValueError):  # refused as a whole
            await saver.put(at(), checkpoint({"x": 0}), about)
            kept[text] = number

    async def find(pair: tuple[str, str]) -> None:
        key, value = pair
        try:
            found = await steps(saver, at(), filter={f"k{key}": value})
        except ValueError:
            return
        wanted = [kept[key]] if key == value else []
        same(found, wanted, f"filter {{'k' + {key!r}: {value!r}}}")

    async def find_value(text: str) -> None:
        found = await steps(saver, at(), filter={SAFE: text})
        same(found, [kept[text]], f"the value {text!r}")

    async with bench.public() as saver:
        await at_once(store, enumerate(texts))
        holds(len(kept) > len(texts) // 2, "most texts can't be stored in metadata")
        await at_once(find_value, kept)
        others = [*kept][:4]
        await at_once(find, [*zip(kept, kept, strict=True), *product(kept, others)])
        same(len(await saver.list(whole())), len(kept), "checkpoints after all that")


@check("filters")
async def kinds_of_values_differ(bench: Bench) -> None:
    """A filter compares values with their type: 1 is neither "1" nor true."""
    values = ["1", 1, True, None, "true", "null", 1.5, "1.5", 0, False]
    async with bench.public() as saver:
        for number, value in enumerate(values):
            await saver.put(at(), checkpoint({"x": 0}), metadata(number, tag=value))
        for number, value in enumerate(values):
            same(await steps(saver, at(), filter={"tag": value}), [number], f"tag {value!r}")


LONG = 120


@check("filters")
async def a_list_of_any_length(bench: Bench) -> None:
    """A long list has each checkpoint once, newest first."""
    async with bench.public() as saver:
        await chain(saver, LONG)
        same(await steps(saver, at()), [*range(LONG)][::-1], "the steps of a long list")


@check("filters")
async def pages_start_after_a_position(bench: Bench) -> None:
    """With `after` a page starts behind that row, also if the row was removed."""
    ids = Ids()
    async with bench.port() as port:
        for number in range(1, 9):
            await commit_batch(port, outside(ids.point(number, run=None)))
        await commit_batch(port, CopyThread("u", THREAD))
        for options in ({}, {"oldest_first": True}):
            order = [*range(1, 9)] if options else [*range(1, 9)][::-1]
            found = await _paged(port, THREAD, **options)
            same([f.row.step for f in found], order, f"pages of a thread {options}")
            found = await _paged(port, None, **options)
            wanted = [(step, thread) for step in order for thread in (THREAD, "u")]
            same([(f.row.step, f.thread_id) for f in found], wanted, f"of all threads {options}")
        last = (await page(port, limit=3))[-1]
        await commit_batch(port, DeleteCheckpoints(THREAD, "", frozenset([last.row.id])))
        rest = await page(port, limit=3, after=(last.row.id, THREAD, last.sequence))
        same([f.row.step for f in rest], [5, 4, 3], "the page behind a row that is gone")


async def _paged(port: Any, thread: str | None, **options: Any) -> list[StoredCheckpoint]:
    """A list in pages of three rows."""
    found: list[StoredCheckpoint] = []
    while len(found) < 100:
        last = found[-1] if found else None
        place = None if last is None else (last.row.id, last.thread_id, last.sequence)
        rows = await page(port, thread, limit=3, after=place, **options)
        if not rows:
            break
        found += rows
    return found

"""Checks of `ports.Saver`: claims, compare-and-set of the head, epochs, sequences, ledgers."""

from actorgraph.errors import AlreadyResumedError, ConflictError
from actorgraph.testing.conformance.builders import (
    OTHER,
    RUN,
    TASK,
    Ids,
    commit_batch,
    load,
    outside,
    page,
)
from actorgraph.testing.conformance.harness import Bench, check, holds, same
from actorgraph.values.commits import CommitOutcome, Committed, LedgerRow, LoadCheckpoint, Refused
from actorgraph.values.retention import CountCheckpoints, DeleteThread, ListThreads


def _kinds(outcomes: list[CommitOutcome]) -> list[str]:
    """Each outcome as "stored" or the name of its error."""
    return [
        type(outcome.error).__name__ if isinstance(outcome, Refused) else "stored"
        for outcome in outcomes
    ]


CONFLICT, RESUMED = ConflictError.__name__, AlreadyResumedError.__name__


@check("claims")
async def the_head_is_compared_and_set(bench: Bench) -> None:
    """A claim or save that names another head than the thread's is refused; others are stored."""
    ids = Ids()
    async with bench.port() as port:
        outcomes = await commit_batch(
            port,
            ids.claim(RUN, None, ids.point(1)),
            ids.save(RUN, 1, ids.point(2, 1)),
            ids.save(RUN, 1, ids.point(3, 1)),
            ids.claim(OTHER, 1),
            ids.claim(OTHER, 2),
        )
        same(_kinds(outcomes), ["stored", "stored", CONFLICT, CONFLICT, "stored"], "outcomes")
        head = (await load(port)).checkpoint
        same(head and head.row.id, ids(2), "the head")
        same((await load(port, ids(3))).checkpoint, None, "the refused checkpoint")


@check("claims")
async def a_strict_save_names_the_head(bench: Bench) -> None:
    """A strict save without a run is refused if its head isn't the namespace's newest."""
    ids = Ids()
    async with bench.port() as port:
        outcomes = await commit_batch(
            port,
            outside(ids.point(1), strict=True),
            outside(ids.point(2, 1), strict=True),
            outside(ids.point(3, 1), head=ids(1), strict=True),
            outside(ids.point(4), namespace="n", strict=True),
            outside(ids.point(5, 4), namespace="n", head=ids(4), strict=True),
            outside(ids.point(6, 4), namespace="n", head=ids(4), strict=True),
        )
        wanted = ["stored", CONFLICT, "stored", "stored", "stored", CONFLICT]
        same(_kinds(outcomes), wanted, "outcomes")
        found = [f.row.id for f in await page(port, namespace="")]
        same(found, [ids(3), ids(1)], "the list")


@check("claims")
async def one_run_holds_the_claim(bench: Bench) -> None:
    """A run that has been superseded, or has ended, can store nothing more."""
    ids = Ids()
    async with bench.port() as port:
        first = await commit_batch(
            port,
            ids.claim(RUN, None, ids.point(1)),
            ids.claim(OTHER, 1),
            ids.save(RUN, 1, ids.point(2, 1)),
        )
        same(_kinds(first), ["stored", "stored", CONFLICT], "superseded")
        second = await commit_batch(
            port,
            ids.save(OTHER, 1, ids.point(2, 1), ends="success"),
            ids.save(OTHER, 2, ids.point(3, 2)),
        )
        same(_kinds(second), ["stored", CONFLICT], "ended")
        same((await load(port)).open_run, None, "the run that is going on")


@check("claims")
async def an_open_run_is_found(bench: Bench) -> None:
    """Loading a thread returns the run that holds its claim, with mode and head."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, ids.claim(RUN, None, mode="exit"))
        found = (await load(port)).open_run
        same(found and (found.run, found.mode, found.head), (RUN, "exit", None), "the run")


@check("claims")
async def an_interrupt_is_answered_once(bench: Bench) -> None:
    """A claim that answers an interrupt of a head that has moved gets AlreadyResumedError."""
    ids = Ids()
    async with bench.port() as port:
        outcomes = await commit_batch(
            port,
            ids.claim(RUN, None, ids.point(1), ends="success"),
            ids.claim(OTHER, None, resumes="a" * 32),
        )
    same(_kinds(outcomes), ["stored", RESUMED], "outcomes")


@check("claims")
async def a_delete_ends_the_epoch(bench: Bench) -> None:
    """After a delete saves of the old epoch are refused; the thread starts again in the next."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, ids.claim(RUN, None, ids.point(1)))
        outcomes = await commit_batch(port, DeleteThread("t"), ids.save(RUN, 1, ids.point(2, 1)))
        loaded = await load(port)
        same(_kinds(outcomes), ["stored", CONFLICT], "outcomes")
        same((loaded.checkpoint, loaded.head, loaded.epoch), (None, None, 2), "the thread")
        again = await commit_batch(port, ids.claim(OTHER, None, ids.point(9), epoch=2))
        same(_kinds(again), ["stored"], "a run of the new epoch")


@check("claims")
async def epochs_outlive_the_saver(bench: Bench) -> None:
    """The epoch, the claim and the sequence of a thread are the same after reopening."""
    ids = Ids()
    bench.require_durable()
    async with bench.port() as port:
        await commit_batch(port, outside(ids.point(1)), DeleteThread("t"))
        await commit_batch(port, ids.claim(RUN, None, ids.point(2), epoch=2))
    async with bench.port() as port:
        loaded = await load(port)
        same(loaded.epoch, 2, "the epoch")
        same(loaded.open_run and loaded.open_run.run, RUN, "the run that is going on")
        late = ids.save(RUN, 2, ids.point(4, 2), epoch=2)
        outcomes = await commit_batch(port, ids.claim(OTHER, 2, ids.point(3, 2), epoch=2), late)
        same(_kinds(outcomes), ["stored", CONFLICT], "outcomes")
        rows = await page(port)
        same([row.row.id for row in rows], [ids(3), ids(2)], "the list")


@check("claims")
async def order_is_that_of_storing(bench: Bench) -> None:
    """The newest checkpoint is the one stored last, regardless of its id; sequences rise by one."""
    ids = Ids()
    ids(5)
    async with bench.port() as port:
        outcomes = await commit_batch(
            port, outside(ids.point(5)), outside(ids.point(3), ids.point(4))
        )
        found = await page(port)
        same([f.row.id for f in found], [ids(4), ids(3), ids(5)], "the list")
        same([f.sequence for f in found], [3, 2, 1], "the sequences")
        given = [o.sequence for o in outcomes if isinstance(o, Committed)]
        same(given, [1, 3], "the sequences in the outcomes")
        older = await page(port, namespace="", before=ids(3))
        same([f.row.id for f in older], [ids(5)], "the checkpoint before")
        head = (await load(port)).head
        same(head, ids(4), "the head")


@check("claims")
async def two_rows_with_one_id(bench: Bench) -> None:
    """Of two checkpoints with one id the newer one is read."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, outside(ids.point(1, metadata='{"n":1}')))
        await commit_batch(port, outside(ids.point(1, metadata='{"n":2}')))
        found = (await load(port, ids(1))).checkpoint
        same(found and found.row.metadata, '{"n":2}', "the metadata")


@check("claims")
async def the_ledger_keeps_the_first(bench: Bench) -> None:
    """A stored ledger row is never replaced; generations are kept side by side, in order."""
    ids = Ids()
    rows = [LedgerRow(ids(1), TASK, "", 0, 0, payload) for payload in (b"\x90", b"\x91\x01")]
    asks = [LedgerRow(ids(1), TASK, "", -3, g, b"%d" % g, asks=True) for g in (2, 1)]
    async with bench.port() as port:
        await commit_batch(port, ids.claim(RUN, None, ids.point(1)))
        for row in (*rows, *asks):
            await commit_batch(port, ids.save(RUN, 1, ledger=(row,)))
        refused = await commit_batch(port, ids.save(RUN, 7, ids.point(8, 7), ledger=(rows[0],)))
        found = (await load(port)).checkpoint
    same(_kinds(refused), [CONFLICT], "a save with another head")
    keys = [(r.index, r.generation, r.payload) for r in found.ledger] if found else []
    same(keys, [(-3, 1, b"1"), (-3, 2, b"2"), (0, 0, b"\x90")], "the ledger")


@check("claims")
async def runs_need_no_other_threads_claim(bench: Bench) -> None:
    """In a batch of many threads a refused commit leaves those of other threads stored."""
    ids = Ids()
    names = [f"t{number}" for number in range(20)]
    async with bench.port() as port:
        batch = [ids.claim(RUN, None, ids.point(n), thread_id=t) for n, t in enumerate(names)]
        batch[7] = ids.claim(RUN, 3, ids.point(7), thread_id=names[7])
        outcomes = await commit_batch(port, *batch)
        wanted = [CONFLICT if number == 7 else "stored" for number in range(20)]
        same(_kinds(outcomes), wanted, "outcomes")
        threads, count = await port.query([ListThreads(), CountCheckpoints("t1")])
        same(threads, sorted(n for n in names if n != "t7"), "the threads")
        same(count, 1, "the count")


@check("claims")
async def queries_leave_no_trace(bench: Bench) -> None:
    """Reading a thousand unknown threads creates none."""
    async with bench.port() as port:
        for hundred in range(0, 1000, 100):
            names = [f"unknown {number}" for number in range(hundred, hundred + 100)]
            loaded = await port.query([LoadCheckpoint(name, "") for name in names])
            holds(all(f.checkpoint is None for f in loaded), "an unknown thread has a checkpoint")
        (threads,) = await port.query([ListThreads()])
        same(threads, [], "the threads")

"""Checks of `ports.Saver`: each column, answers, branches, claims and what removals do to them."""

import msgspec

from actorgraph.codec.records import Record, frame, frames
from actorgraph.errors import AlreadyResumedError, ConflictError, EncryptionError
from actorgraph.ports import Saver
from actorgraph.testing.conformance.builders import (
    OTHER,
    RUN,
    TASK,
    Ids,
    commit_batch,
    items,
    load,
    outside,
    page,
    texts_of,
)
from actorgraph.testing.conformance.harness import Bench, check, holds, same
from actorgraph.values.commits import (
    EPOCH_ANY,
    BlobRow,
    Claim,
    Commit,
    CommitOutcome,
    Committed,
    LedgerRow,
    LoadCheckpoint,
    Refused,
    Request,
)
from actorgraph.values.constants import CONTROL_INDEX, RESUME
from actorgraph.values.ids import as_text
from actorgraph.values.retention import (
    CopyThread,
    CountCheckpoints,
    DeleteCheckpoints,
    DeleteRuns,
    DeleteThread,
    Expire,
    KeepLast,
    ListThreads,
    Reseal,
    Sweep,
    Vacuum,
)

THIRD = b"3" * 16
CONFLICT, RESUMED = ConflictError.__name__, AlreadyResumedError.__name__


async def outcome_of(port: Saver, request: Request) -> str:
    """Commit one request; return "stored" or the name of its error."""
    (outcome,) = await commit_batch(port, request)
    return kind_of(outcome)


def kind_of(outcome: CommitOutcome) -> str:
    """An outcome as "stored" or the name of its error."""
    return type(outcome.error).__name__ if isinstance(outcome, Refused) else "stored"


@check("rows")
async def every_column_is_read(bench: Bench) -> None:
    """A checkpoint is read with its parent, step, source, run, next nodes and metadata."""
    ids = Ids()
    async with bench.port() as port:
        row = ids.point(2, 1, metadata='{"user":"ada"}', run=OTHER)
        await commit_batch(port, outside(ids.point(1)), outside(row))
        found, listed = (await load(port)).checkpoint, (await page(port))[0]
        for one in (found, listed):
            read = one and (one.row.parent, one.row.step, one.row.source, one.row.run)
            same(read, (ids(1), 2, "loop", OTHER), "parent, step, source and run")
            same(one and (one.row.next, one.row.metadata), (row.next, row.metadata), "the texts")
            same(one and one.row.record, row.record, "the record")
        same(found and (found.thread_id, found.namespace, found.sequence), ("t", "", 2), "place")


@check("rows")
async def next_nodes_are_read(bench: Bench) -> None:
    """The nodes that run next are those that were stored, also bare and in other namespaces."""
    ids = Ids()
    async with bench.port() as port:
        row = ids.point(1)
        named = type(row)(
            **{name: getattr(row, name) for name in row.__struct_fields__ if name != "next"},
            next='["a","b"]',
        )
        await commit_batch(port, outside(named), outside(ids.point(2), namespace="n"))
        same([f.row.next for f in await page(port, namespace="")], ['["a","b"]'], "next")
        same([f.row.next for f in await page(port, bare=True)], ["[]", '["a","b"]'], "next, bare")


@check("rows")
async def the_ledger_is_read_whole(bench: Bench) -> None:
    """Ledger rows keep path, task, index, generation, payload and `asks`, in their order."""
    ids = Ids()
    rows = (
        LedgerRow(ids(1), TASK, "b", 0, 0, b"\x90", asks=False),
        LedgerRow(ids(1), b"u" * 16, "a", -3, 1, b"\x91", asks=True),
    )
    async with bench.port() as port:
        await commit_batch(port, ids.claim(RUN, None, ids.point(1)))
        await commit_batch(port, ids.save(RUN, 1, ledger=rows))
        found = (await load(port)).checkpoint
        same(found and found.ledger, (rows[1], rows[0]), "the ledger")
        (child,) = await commit_batch(port, ids.save(RUN, 1, ids.point(2, 1), number=3))
        same(kind_of(child), "stored", "a save behind writes")
        (loaded,) = await port.query([LoadCheckpoint("t", parent=True)])
        given = loaded.checkpoint and loaded.checkpoint.parent_ledger
        holds(given in (None, (rows[1], rows[0])), f"the parent's ledger: {given}")
        bare = (await page(port, bare=True))[-1]
        same((bare.ledger, bare.blobs), ((), {}), "writes and values of a bare row")


@check("rows")
async def claims_keep_their_input(bench: Bench) -> None:
    """The input of a claim is read while the run is open, and its thread is listed by it."""
    async with bench.port() as port:
        claim = Claim(None, "async", input=b"in")
        await commit_batch(port, Commit("t", "", RUN, 1, 1, None, claim=claim))
        found = (await load(port)).open_run
        same(found and (found.run, found.mode, found.input), (RUN, "async", b"in"), "the claim")
        both = await port.query([ListThreads(), ListThreads(inputs=True)])
        same(both, [[], ["t"]], "threads without and with inputs")


@check("rows")
async def an_answer_counts_once(bench: Bench) -> None:
    """A claim whose answer another one has stored is refused, though the head is the same."""
    ids = Ids()
    answer = LedgerRow(ids(1), TASK, "", CONTROL_INDEX[RESUME], 1, b"\x01")
    async with bench.port() as port:
        await commit_batch(port, ids.claim(RUN, None, ids.point(1), ends="interrupted"))
        found = [
            await outcome_of(port, ids.claim(run, 1, resumes="a" * 32, ledger=(answer,)))
            for run in (OTHER, THIRD)
        ]
        same(found, ["stored", RESUMED], "two claims with one answer")
        later = ids.claim(THIRD, 1, resumes="b" * 32, ledger=())
        same(await outcome_of(port, later), "stored", "a claim with another answer")


@check("rows")
async def a_branch_needs_its_base(bench: Bench) -> None:
    """A run continues from an older checkpoint only while that is stored."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, *(outside(ids.point(n, n - 1 or None)) for n in (1, 2, 3)))
        await commit_batch(port, DeleteCheckpoints("t", "", frozenset([ids(1)])))
        gone = ids.claim(RUN, 3, ids.point(4, 1))
        same(await outcome_of(port, gone), CONFLICT, "a branch from a removed checkpoint")
        same((await load(port)).head, ids(3), "the head")
        there = ids.claim(RUN, 3, ids.point(4, 2))
        same(await outcome_of(port, there), "stored", "a branch from one that is there")


@check("rows")
async def a_claim_names_the_one_before(bench: Bench) -> None:
    """Of claims that read the same holder the first is stored; the head doesn't show it."""
    async with bench.port() as port:
        found = [
            await outcome_of(
                port, Commit("t", "", run, 1, 1, None, claim=Claim(None, "sync", holder=holder))
            )
            for run, holder in ((RUN, None), (OTHER, None), (OTHER, RUN), (THIRD, RUN))
        ]
        same(found, ["stored", CONFLICT, "stored", CONFLICT], "outcomes")


@check("rows")
async def a_removal_stops_the_run(bench: Bench) -> None:
    """A run whose rows, or whose newest checkpoint, are removed can store nothing more."""
    ids = Ids()
    removals = {
        "the run": DeleteRuns("t", frozenset([as_text(RUN)])),
        "its head": DeleteCheckpoints("t", "", frozenset([ids(1)])),
    }
    for what, removal in removals.items():
        async with bench.port() as port:
            await commit_batch(port, DeleteThread("t"))
            epoch = (await load(port)).epoch
            await commit_batch(port, ids.claim(RUN, None, ids.point(1), epoch=epoch))
            await commit_batch(port, removal)
            late = ids.save(RUN, None, ids.point(2), epoch=epoch)
            same(await outcome_of(port, late), CONFLICT, f"a save after a removal of {what}")
            loaded = await load(port)
            same((loaded.epoch, loaded.open_run), (epoch + 1, None), f"after a removal of {what}")
            await commit_batch(port, DeleteThread("t"))


@check("rows")
async def removals_of_others_stop_no_run(bench: Bench) -> None:
    """A removal of older checkpoints leaves the open run, and says how many it removed."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, *(outside(ids.point(n, n - 1 or None)) for n in (1, 2, 3)))
        await commit_batch(port, ids.claim(RUN, 3))
        older = DeleteCheckpoints("t", "", frozenset([ids(1), ids(9)]))
        (outcome,) = await commit_batch(port, older)
        same(outcome, Committed(removed=1), "what the removal says")
        holds((await load(port, ids(2))).checkpoint, "the checkpoint that is left is gone")
        parents = [f.row.parent for f in await page(port)]
        same(parents, [ids(2), None], "the parents of those that are left")
        (outcome,) = await commit_batch(port, KeepLast("t", 1))
        same(outcome, Committed(removed=1), "how many are removed beside the newest")
        save = ids.save(RUN, 3, ids.point(4, 3))
        same(await outcome_of(port, save), "stored", "a save of the run that is going on")


@check("rows")
async def old_rows_expire(bench: Bench) -> None:
    """An expiry removes older rows but the newest; with count 0 all of the thread."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, *(outside(ids.point(n, None)) for n in (1, 2, 3)))
        made = [f.row.created for f in await page(port)]
        await commit_batch(port, Expire("t", min(made), 1))
        same(len(await page(port)), 3, "checkpoints after a time before all of them")
        await commit_batch(port, Expire("t", max(made) + 1, 1))
        same([f.row.id for f in await page(port)], [ids(3)], "the newest")
        (older, newer) = await port.query([ListThreads(older=max(made) + 1), ListThreads(older=1)])
        same((older, newer), (["t"], []), "threads with older checkpoints")
        await commit_batch(port, Expire("t", max(made) + 1, 0))
        same(await page(port), [], "checkpoints of a thread that is older as a whole")


@check("rows")
async def a_sweep_frees_what_is_left_over(bench: Bench) -> None:
    """A sweep removes rows that no checkpoint names, unless a run is open, and counts them."""
    ids = Ids()
    lost = LedgerRow(ids(9), TASK, "", 0, 0, b"\x90")
    async with bench.port() as port:
        await commit_batch(port, ids.claim(RUN, None, ids.point(1), ledger=(lost,)))
        (held,) = await commit_batch(port, Sweep("t"))
        same(held, Committed(), "a sweep while a run is open")
        await commit_batch(port, ids.save(RUN, 1, ends="success"))
        (first,) = await commit_batch(port, Sweep("t"))
        (again,) = await commit_batch(port, Sweep("t"))
        same((first, again), (Committed(freed=1), Committed()), "two sweeps")
        found = (await load(port)).checkpoint
        same(found and found.blobs, {"x": b"1"}, "the value that is named")


@check("rows")
async def a_vacuum_keeps_what_is_stored(bench: Bench) -> None:
    """A vacuum loses nothing that is stored; of a deleted thread not even its epoch is left."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(port, outside(ids.point(1)), outside(ids.point(2), thread="gone"))
        await commit_batch(port, DeleteThread("gone"))
        (outcome,) = await commit_batch(port, Vacuum())
        same(kind_of(outcome), "stored", "a vacuum")
        found = (await load(port)).checkpoint
        same(found and found.blobs, {"x": b"1"}, "the value")
        same((await load(port, thread="gone")).epoch, 1, "the epoch of the deleted thread")


@check("rows")
async def threads_and_counts(bench: Bench) -> None:
    """Threads are found by their runs, and counted by namespace; copies go to empty threads."""
    ids = Ids()
    async with bench.port() as port:
        await commit_batch(
            port,
            outside(ids.point(1)),
            outside(ids.point(2), namespace="n"),
            outside(ids.point(3, run=OTHER), thread="u"),
        )
        wanted = [
            ListThreads(runs=frozenset([as_text(OTHER)])),
            ListThreads(runs=frozenset()),
            CountCheckpoints("t"),
            CountCheckpoints("t", "n"),
            CountCheckpoints("unknown"),
        ]
        same(await port.query(wanted), [["u"], [], 2, 1, 0], "threads and counts")
        same(await outcome_of(port, CopyThread("u", "t")), CONFLICT, "a copy over a thread")
        await commit_batch(port, CopyThread("v", "t"))
        copied = await port.query([CountCheckpoints("v"), LoadCheckpoint("v", "n")])
        same((copied[0], copied[1].head), (2, ids(2)), "the copy")
        await commit_batch(port, DeleteCheckpoints("v", "n", frozenset([ids(1), ids(2)])))
        counts = await port.query([CountCheckpoints("v", ""), CountCheckpoints("v", "n")])
        same(counts, [1, 0], "checkpoints after a removal in one namespace")


@check("rows")
async def a_refused_request_leaves_no_rows(bench: Bench) -> None:
    """In the middle of a batch a refused commit stores no row, and those around it are whole."""
    ids = Ids()
    stray = BlobRow("x", 1, b"forged")
    async with bench.port() as port:
        row = LedgerRow(ids(1), TASK, "", 5, 0, b"forged")
        point = ids.point(3, 1)
        forged = type(point)(
            **{n: getattr(point, n) for n in point.__struct_fields__ if n != "blobs"},
            blobs=(stray,),
        )
        outcomes = await commit_batch(
            port,
            ids.claim(RUN, None, ids.point(1)),
            ids.save(OTHER, 1, forged, ledger=(row,), ends="success"),
            ids.save(RUN, 1, ids.point(2, 1)),
        )
        same([*map(kind_of, outcomes)], ["stored", CONFLICT, "stored"], "outcomes")
        first = (await load(port, ids(1))).checkpoint
        same(first and (first.blobs, first.ledger), ({"x": b"1"}, ()), "the first checkpoint")
        loaded = await load(port)
        same((loaded.head, loaded.open_run is None), (ids(2), False), "the head and the run")
        same(loaded.version_floor, 2, "the highest version")


class _Sealing(msgspec.Struct):
    """Makes new payloads; or none of writes. A struct, for savers that store requests as such."""

    fails: bool = False

    def value(self, namespace: str, channel: str, version: int, payload: bytes) -> bytes:
        """Make the payload of a value."""
        return b"sealed " + payload

    def items(
        self, namespace: str, channel: str, lineage: int, start: int, payload: bytes
    ) -> bytes:
        """Make the payload of items: a frame."""
        return frame(b"sealed " + b"".join(frames(payload)))

    def writes(self, namespace: str, row: LedgerRow) -> bytes:
        """Make the payload of writes."""
        if self.fails:
            raise EncryptionError("a payload can't be decrypted", do="pass its key")
        return b"sealed " + row.payload

    def input(self, run: bytes, payload: bytes) -> bytes:
        """Make the payload of an input."""
        return b"sealed " + payload


async def _payloads(port: Saver, thread: str) -> list[bytes]:
    """The payloads of a value, of items and of writes."""
    point = (await load(port, thread=thread)).checkpoint
    if point is None:
        return []
    return [point.blobs["y"], texts_of(point), *(row.payload for row in point.ledger)]


@check("rows")
async def payloads_are_replaced_whole(bench: Bench) -> None:
    """New payloads replace all of a thread's; if one can't be made, all stay as they are."""
    ids, plain = Ids(), [b"v", b"ab", b"w"]
    sealed = [b"sealed " + payload for payload in plain]
    record = Record(channel_versions={"x": 1, "y": 1}, blobs=["y"], lists={"x": [(1, 2)]})
    values = {"blobs": (BlobRow("y", 1, b"v"),), "ranges": (items(0, [b"a", b"b"]),)}
    write = LedgerRow(ids(1), TASK, "", 0, 0, b"w")
    claim = Claim(None, "sync", input=b"in")
    async with bench.port() as port:
        await commit_batch(port, outside(ids.point(1, None, record, **values)))
        await commit_batch(
            port,
            Commit("t", "", None, EPOCH_ANY, 0, None, ledger=(write,)),
            Commit("u", "", RUN, 1, 1, None, claim=claim),
        )
        broken, works = _Sealing(fails=True), _Sealing()
        outcomes = await commit_batch(
            port,
            Reseal("t", broken),
            outside(ids.point(2), thread="v"),
            CopyThread("w", "t", resealer=broken),
            CopyThread("c", "t"),
        )
        failed = EncryptionError.__name__
        same([*map(kind_of, outcomes)], [failed, "stored", failed, "stored"], "outcomes")
        found = [await _payloads(port, thread) for thread in ("t", "c", "w")]
        same(found, [plain, plain, []], "payloads after errors")
        copy = CopyThread("d", "c", resealer=works)
        await commit_batch(port, Reseal("t", works), Reseal("u", works), copy)
        found = [await _payloads(port, thread) for thread in ("t", "d", "c")]
        same(found, [sealed, sealed, plain], "new payloads, those of a copy, and of its source")
        claimed = (await load(port, thread="u")).open_run
        same(claimed and claimed.input, b"sealed in", "the input of the open run")

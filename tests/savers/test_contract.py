"""Every saver and a batch: claims, heads, epochs, sequences, the ledger."""

import anyio
import pytest

from actorgraph import AlreadyResumed, ConflictError
from actorgraph.codec.records import Record, encode_record
from actorgraph.values.commits import (
    EPOCH_ANY,
    BlobRow,
    CheckpointRow,
    Claim,
    Commit,
    Committed,
    DeleteThread,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Refused,
)

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop("memory", "jsonl", "postgres")]

RUN, OTHER = b"r" * 16, b"o" * 16
TASK = b"t" * 16


def ident(number: int) -> bytes:
    return number.to_bytes(16, "big")


def point(number: int, parent: int | None = None, **columns) -> CheckpointRow:
    """A checkpoint whose value of `x` is its number."""
    record = Record(channel_versions={"x": number}, blobs=["x"])
    return CheckpointRow(
        id=ident(number),
        parent=None if parent is None else ident(parent),
        step=number,
        source="loop",
        run=columns.pop("run", RUN),
        next="[]",
        record=encode_record(record),
        metadata="{}",
        blobs=(BlobRow("x", number, b"%d" % number),),
    )


def claim(run: bytes = RUN, head: int | None = None, *points, thread: str = "t", **more) -> Commit:
    """A run's first save."""
    known = None if head is None else ident(head)
    claims = Claim(known, "sync", resumes=more.pop("resumes", ""))
    return Commit(
        thread, "", run, more.pop("epoch", 1), 1, known, claims, checkpoints=points, **more
    )


def save(run: bytes, head: int | None, *points, **more) -> Commit:
    """A later save of a run."""
    known = None if head is None else ident(head)
    return Commit("t", "", run, more.pop("epoch", 1), 2, known, checkpoints=points, **more)


@pytest.fixture
async def port(store):
    """A saver's four methods, without actors around them."""
    saver = store.saver()
    await saver.open()
    yield saver
    await saver.close()


async def load(port, number: int | None = None, thread: str = "t"):
    """One answer to LoadCheckpoint."""
    wanted = None if number is None else ident(number)
    (loaded,) = await port.query([LoadCheckpoint(thread, "", wanted)])
    return loaded


class TestClaims:
    @pytest.mark.promise("S068", "C18")
    async def test_the_head_is_compared_and_set(self, port):
        """
        A claim, or a save, with another head than the thread's is refused.
        """
        outcomes = await port.commit(
            [
                claim(RUN, None, point(1)),
                save(RUN, 1, point(2, 1)),
                save(RUN, 1, point(3, 1)),
                claim(OTHER, 1),
                claim(OTHER, 2),
            ]
        )

        assert [isinstance(o, Committed) for o in outcomes] == [True, True, False, False, True]
        assert isinstance(outcomes[2].error, ConflictError)
        assert "moved on" in str(outcomes[3].error)
        assert (await load(port)).checkpoint.row.id == ident(2)

    async def test_a_superseded_run_can_store_nothing(self, port):
        """
        Once another run has claimed the thread the old one's saves are refused.
        """
        outcomes = await port.commit(
            [claim(RUN, None, point(1)), claim(OTHER, 1), save(RUN, 1, point(2, 1))]
        )

        assert isinstance(outcomes[2], Refused)
        assert "taken over" in str(outcomes[2].error)

    async def test_a_run_that_has_ended_can_store_nothing(self, port):
        """
        The save with `ends` is a run's last one.
        """
        outcomes = await port.commit(
            [claim(RUN, None, point(1), ends="success"), save(RUN, 1, point(2, 1))]
        )

        assert isinstance(outcomes[1], Refused)
        assert (await load(port)).open_run is None

    async def test_a_late_resume_hears_that_it_was_answered(self, port):
        """
        A claim that answers a question on a head that has moved gets AlreadyResumed.
        """
        outcomes = await port.commit(
            [claim(RUN, None, point(1), ends="x"), claim(OTHER, None, resumes="a" * 32)]
        )

        assert isinstance(outcomes[1].error, AlreadyResumed)

    async def test_an_open_claim_is_found_again(self, port):
        """
        A run that never left is seen when the thread is loaded, with mode and input.
        """
        await port.commit([Commit("t", "", RUN, 1, 1, None, Claim(None, "exit", b"input"))])

        found = (await load(port)).open_run

        assert (found.run, found.mode, found.input, found.head) == (RUN, "exit", b"input", None)


class TestEpochs:
    @pytest.mark.promise("S111")
    async def test_a_delete_ends_the_epoch(self, port):
        """
        After a delete, saves that know the old epoch are refused and nothing comes back.
        """
        await port.commit([claim(RUN, None, point(1))])
        outcomes = await port.commit([DeleteThread("t"), save(RUN, 1, point(2, 1))])
        loaded = await load(port)

        assert isinstance(outcomes[0], Committed)
        assert "deleted" in str(outcomes[1].error)
        assert (loaded.checkpoint, loaded.head, loaded.epoch) == (None, None, 2)

    async def test_the_new_epoch_starts_from_nothing(self, port):
        """
        A deleted thread takes a new run under its new epoch.
        """
        await port.commit([claim(RUN, None, point(1)), DeleteThread("t")])

        (outcome,) = await port.commit([claim(OTHER, None, point(9), epoch=2)])

        assert isinstance(outcome, Committed)
        assert (await load(port)).checkpoint.row.id == ident(9)

    async def test_everything_of_the_thread_goes(self, port):
        """
        Values, ledger and checkpoints of a deleted thread are gone; other threads stay.
        """
        row = LedgerRow(ident(1), TASK, "", 0, 0, b"\x90")
        await port.commit([claim(RUN, None, point(1), ledger=(row,))])
        await port.commit([claim(RUN, None, point(1), thread="other")])
        await port.commit([DeleteThread("t")])
        (mine,) = await port.query([ListCheckpoints("t")])
        (all_threads,) = await port.query([ListCheckpoints()])

        assert mine == []
        assert [found.thread_id for found in all_threads] == ["other"]


class TestLedger:
    @pytest.mark.promise("S014", "C17")
    @pytest.mark.langgraph("F-E6", "L37")
    async def test_rows_are_stored_once(self, port):
        """
        A ledger row that is there already is left as it is.
        """
        rows = [LedgerRow(ident(1), TASK, "", 0, 0, payload) for payload in (b"\x90", b"\x91\x01")]
        await port.commit([claim(RUN, None, point(1))])
        for row in rows:
            await port.commit([save(RUN, 1, ledger=(row,))])

        assert [r.payload for r in (await load(port)).checkpoint.ledger] == [b"\x90"]

    @pytest.mark.promise("C17")
    @pytest.mark.langgraph("L37")
    async def test_generations_are_stored_side_by_side(self, port):
        """
        A control row of a later generation is added; readers take the highest.
        """
        rows = tuple(LedgerRow(ident(1), TASK, "~x", -3, g, b"%d" % g, asks=True) for g in (2, 1))
        await port.commit([claim(RUN, None, point(1), ledger=rows)])

        assert [r.generation for r in (await load(port)).checkpoint.ledger] == [1, 2]

    async def test_a_refused_commit_leaves_nothing(self, port):
        """
        A commit is stored whole or not at all.
        """
        row = LedgerRow(ident(1), TASK, "", 0, 0, b"\x90")
        await port.commit([claim(RUN, None, point(1))])
        await port.commit([save(RUN, 7, point(8, 7), ledger=(row,))])
        loaded = await load(port)

        assert loaded.checkpoint.ledger == ()
        assert (await load(port, 8)).checkpoint is None


class TestSequences:
    @pytest.mark.promise("C11", "D13")
    async def test_order_is_the_stores(self, port):
        """
        The newest is what was stored last, whatever its id or its clock.
        """
        await port.commit([claim(RUN, None, point(5))])
        await port.commit([save(RUN, 5, point(3, 5))])
        (page,) = await port.query([ListCheckpoints("t", "")])
        (older,) = await port.query([ListCheckpoints("t", "", before=ident(3))])

        assert [found.row.id for found in page] == [ident(3), ident(5)]
        assert [found.sequence for found in page] == [2, 1]
        assert [found.row.id for found in older] == [ident(5)]

    async def test_outcomes_name_the_sequence(self, port):
        """
        Each stored commit gets its newest sequence; one without checkpoints 0.
        """
        outcomes = await port.commit(
            [claim(RUN, None, point(1), point(2, 1)), save(RUN, 2), save(RUN, 2, point(3, 2))]
        )

        assert [outcome.sequence for outcome in outcomes] == [2, 0, 3]

    @pytest.mark.promise("S225", "D16")
    async def test_a_read_sees_whole_checkpoints(self, port):
        """
        Reads during writes give checkpoints with all their rows.
        """
        torn: list = []
        done = anyio.Event()

        async def read() -> None:
            while not done.is_set():
                found = (await load(port)).checkpoint
                if found is not None and found.blobs.get("x") != b"%d" % found.row.step:
                    torn.append(found)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await port.commit([claim(RUN, None, point(1))])
            for n in range(2, 60):
                await port.commit([save(RUN, n - 1, point(n, n - 1))])
            done.set()

        assert torn == []


async def test_a_commit_from_outside_runs_is_not_held_up_by_claims(port):
    """
    Commits without a run need no claim and no epoch.
    """
    commit = Commit("t", "", None, EPOCH_ANY, 0, None, checkpoints=(point(1, run=None),))

    (outcome,) = await port.commit([commit])

    assert isinstance(outcome, Committed)
    assert (await load(port)).checkpoint.row.run is None

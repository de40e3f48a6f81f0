"""The judge: which commits every saver stores, which it refuses with which error, and why."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorgraph.errors import (
    AlreadyResumedError,
    ConflictError,
    StorageError,
    StorageFullError,
    ThreadBusyError,
)
from actorgraph.savers.judge import (
    ThreadState,
    answer_rows,
    branch_base,
    fence,
    judge,
    one_by_one,
    refused_copy,
    sorted_ledger,
)
from actorgraph.values.commits import (
    EPOCH_ANY,
    HOLDER_ANY,
    CheckpointRow,
    Claim,
    Commit,
    CommitOutcome,
    Committed,
    DeleteThread,
    LedgerRow,
    Refused,
    Request,
)
from actorgraph.values.constants import CONTROL_INDEX, ERROR, INTERRUPT, RESUME, ROUTED
from actorgraph.values.retention import CopyThread
from actorgraph.values.systems import AdoptRun

RUN, OTHER = b"r" * 16, b"o" * 16
HEAD, NEWER, NEWEST, GONE = (bytes([n]) * 16 for n in (1, 2, 3, 4))
MINE, THEIRS = b"system one", b"system two"


def commit(**fields: Any) -> Commit:
    """A save of the run that has the thread, on its head."""
    basis = Commit("t", "", RUN, EPOCH_ANY, 2, HEAD)
    return Commit(**{name: getattr(basis, name) for name in basis.__struct_fields__} | fields)


def claim(head: bytes | None = HEAD, **fields: Any) -> Claim:
    """A claim of a run that has read the thread with that head."""
    return Claim(head, "sync", **fields)


def state(**fields: Any) -> ThreadState:
    """A thread that `RUN` has claimed; its fifth checkpoint comes next."""
    return ThreadState("t", **{"run": RUN, "next_seq": 5, "heads": {"": HEAD}, "epoch": 3} | fields)


def checkpoint(name: bytes, parent: bytes | None = HEAD) -> CheckpointRow:
    return CheckpointRow(name, parent, 1, "loop", RUN, "[]", "{}", "{}")


def row(index: int = 0, *, path: str = "", task: bytes = b"t", generation: int = 0) -> LedgerRow:
    return LedgerRow(HEAD, task, path, index, generation, b"")


def conflict(cause: str) -> ConflictError:
    return ConflictError(
        f"thread 't' {cause}; nothing of this save was stored",
        do="load the thread again and repeat the call, or make one call per thread at a time",
    )


FENCED = conflict("was deleted, or leased by another system, during the run")
TAKEN_OVER = conflict("has been taken over by another run")
MOVED = conflict("has moved on to checkpoint 02020202-0202-0202-0202-020202020202")
LEASED = ThreadBusyError(
    "thread 't' is leased by an ActorSystem in another process",
    do="wait for its run to end, or cancel that run there",
)
ANSWERED = AlreadyResumedError(
    "another run has answered the interrupt of thread 't'",
    do="read get_state(config) to see how it went on",
)
USED_TWICE = ConflictError(
    "stateful subgraph 'a' of thread 't' was advanced by another task; "
    "nothing of this save was stored",
    do="run a graph that was compiled with checkpointer=True in one task of a superstep at a time "
    "(max_concurrency=1 for its node), or compile it without",
)

# name -> the commit, the thread, what the store has found, and the error
REFUSALS: dict[str, tuple[Commit, ThreadState, dict[str, bool], ConflictError]] = {
    "an older epoch": (commit(epoch=2), state(), {}, FENCED),
    "an older epoch, before all else that is wrong": (
        commit(epoch=2, claim=claim(NEWER, resumes="i"), owner=MINE),
        state(run=OTHER, owner=THEIRS, leased=True),
        {"answered": True, "based": False},
        FENCED,
    ),
    "a strict update of another head": (
        commit(run=None, strict=True),
        state(heads={"": NEWER}),
        {},
        MOVED,
    ),
    "a strict update of a thread that was deleted": (
        commit(run=None, strict=True),
        state(heads={}),
        {},
        conflict("has moved on to checkpoint none"),
    ),
    "a claim of a leased thread": (
        commit(claim=claim(), owner=MINE),
        state(owner=THEIRS, leased=True),
        {},
        LEASED,
    ),
    "a claim of a leased thread, by a run of no system": (
        commit(claim=claim()),
        state(owner=THEIRS, leased=True),
        {},
        LEASED,
    ),
    "a claim after another one": (
        commit(claim=claim(holder=None)),
        state(run=OTHER),
        {},
        conflict("was claimed by another run after this run had read it"),
    ),
    "a claim of another head": (commit(claim=claim()), state(heads={"": NEWER}), {}, MOVED),
    "an answer at another head": (commit(claim=claim(NEWER, resumes="i")), state(), {}, ANSWERED),
    "an answer beside a stored one": (
        commit(claim=claim(resumes="i")),
        state(),
        {"answered": True},
        ANSWERED,
    ),
    "a save of a run that lost its claim": (
        commit(),
        state(run=OTHER, heads={"": NEWER}),
        {},
        TAKEN_OVER,
    ),
    "a save of a run that has left": (commit(), state(run=None), {}, TAKEN_OVER),
    "a save after an update from outside": (commit(), state(heads={"": NEWER}), {}, MOVED),
    "a save of a subgraph that another task uses": (
        commit(namespace="a"),
        state(heads={"": HEAD, "a": NEWER}),
        {},
        USED_TWICE,
    ),
    "a branch from a checkpoint that was removed": (
        commit(checkpoints=(checkpoint(NEWER, GONE),)),
        state(),
        {"based": False},
        conflict("no longer has the checkpoint that this run continues from"),
    ),
}


class TestRefused:
    @pytest.mark.parametrize(
        ("commit", "thread", "found", "expected"), REFUSALS.values(), ids=REFUSALS
    )
    def test_each_refusal_says_which_thing_is_wrong_and_what_to_do(
        self, commit, thread, found, expected
    ):
        """
        A refused commit gets an error with its cause and advice, and leaves the thread unchanged.
        """
        before = copy.deepcopy(thread)

        first, error = judge(commit, thread, **found)

        assert (first, type(error), str(error)) == (0, type(expected), str(expected))
        assert thread == before

    def test_a_busy_thread_is_named_for_programs(self):
        """
        The error of a leased thread has its id as an attribute.
        """
        _, error = judge(commit(claim=claim()), state(owner=THEIRS, leased=True))

        assert isinstance(error, ThreadBusyError)
        assert error.thread_id == "t"

    def test_a_copy_to_a_thread_with_checkpoints(self):
        """
        A copy that would mix two histories is refused, with the thread and the way out.
        """
        error = refused_copy(CopyThread("t", "source"))

        assert type(error) is ConflictError
        assert error.what == "thread 't' has checkpoints; nothing was copied"
        assert error.do == "copy to a new thread_id, or delete that thread first"


# name -> the commit, the thread, and the thread afterwards
ACCEPTED: dict[str, tuple[Commit, ThreadState, ThreadState]] = {
    "writes move nothing": (
        commit(ledger=(row(),)),
        state(),
        state(changed=True),
    ),
    "checkpoints move the head": (
        commit(checkpoints=(checkpoint(NEWER), checkpoint(NEWEST))),
        state(),
        state(changed=True, next_seq=7, heads={"": NEWEST}),
    ),
    "a subgraph has a head of its own": (
        commit(namespace="a", head=None, checkpoints=(checkpoint(NEWER),)),
        state(),
        state(changed=True, next_seq=6, heads={"": HEAD, "a": NEWER}),
    ),
    "the epoch that was read": (
        commit(epoch=3),
        state(),
        state(changed=True),
    ),
    "a claim of a free thread": (
        commit(claim=claim(holder=None)),
        state(run=None),
        state(changed=True),
    ),
    "a claim from the holder that was read": (
        commit(claim=claim(holder=OTHER)),
        state(run=OTHER),
        state(changed=True),
    ),
    "a claim that this run has already": (
        commit(claim=claim(holder=OTHER)),
        state(),
        state(changed=True),
    ),
    "a claim that compares no holder": (
        commit(claim=claim(holder=HOLDER_ANY)),
        state(run=OTHER),
        state(changed=True),
    ),
    "a system's claim takes the lease and raises the epoch": (
        commit(claim=claim(), owner=MINE),
        state(),
        state(changed=True, epoch=4, owner=MINE, leased=True),
    ),
    "a system claims again what it leases": (
        commit(claim=claim(), owner=MINE),
        state(owner=MINE, leased=True),
        state(changed=True, epoch=4, owner=MINE, leased=True),
    ),
    "a system claims a thread whose lease ran out": (
        commit(claim=claim(), owner=MINE),
        state(owner=THEIRS),
        state(changed=True, epoch=4, owner=MINE, leased=True),
    ),
    "a claim without a system ends a lease that ran out": (
        commit(claim=claim()),
        state(owner=THEIRS),
        state(changed=True),
    ),
    "the first answer": (
        commit(claim=claim(resumes="i")),
        state(run=None),
        state(changed=True),
    ),
    "the end of a run frees thread and lease": (
        commit(ends="success"),
        state(owner=MINE, leased=True),
        state(changed=True, run=None),
    ),
    "an update moves the head and leaves the claim": (
        commit(run=None, head=None, checkpoints=(checkpoint(NEWER),)),
        state(),
        state(changed=True, next_seq=6, heads={"": NEWER}),
    ),
    "an update that says how it ends leaves the claim too": (
        commit(run=None, head=None, ends="success"),
        state(owner=MINE, leased=True),
        state(changed=True, owner=MINE, leased=True),
    ),
    "a strict update of the head that was read": (
        commit(run=None, strict=True, checkpoints=(checkpoint(NEWER),)),
        state(),
        state(changed=True, next_seq=6, heads={"": NEWER}),
    ),
}


class TestAccepted:
    @pytest.mark.parametrize(("commit", "thread", "after"), ACCEPTED.values(), ids=ACCEPTED)
    def test_a_commit_is_applied_to_the_thread(self, commit, thread, after):
        """
        An accepted commit gets the thread's next sequence and changes what it says, no more.
        """
        assert judge(commit, thread) == (5, None)
        assert thread == after
        assert thread.changed is True

    def test_a_thread_begins_at_one(self):
        """
        The first checkpoint of a thread that no store has seen has sequence and epoch 1.
        """
        thread = ThreadState("t")
        first = commit(epoch=1, head=None, claim=claim(None), checkpoints=(checkpoint(HEAD, None),))

        assert judge(first, thread) == (1, None)
        assert (thread.epoch, thread.next_seq, thread.leased) == (1, 2, False)
        assert ThreadState("u").heads == {}


runs = st.sampled_from([RUN, OTHER])
owners = st.sampled_from([None, MINE, THEIRS])
ids = st.sampled_from([None, HEAD, NEWER])
claims = st.builds(
    Claim,
    ids,
    st.just("sync"),
    resumes=st.sampled_from(["", "i"]),
    holder=st.sampled_from([None, HOLDER_ANY, RUN, OTHER]),
)
commits = st.builds(
    commit,
    namespace=st.sampled_from(["", "a"]),
    run=st.none() | runs,
    epoch=st.integers(0, 4),
    head=ids,
    claim=st.none() | claims,
    checkpoints=st.sampled_from([(), (checkpoint(NEWER),), (checkpoint(NEWER), checkpoint(HEAD))]),
    ends=st.sampled_from([None, "success"]),
    owner=owners,
    strict=st.booleans(),
)
threads = st.builds(
    state,
    run=st.none() | runs,
    heads=st.dictionaries(st.sampled_from(["", "a"]), ids),
    owner=owners,
    leased=st.booleans(),
)


class TestAnyBatch:
    @settings(max_examples=60)
    @given(threads, st.lists(commits, max_size=6), st.booleans(), st.booleans())
    def test_commits_are_stored_whole_or_leave_no_trace(self, thread, batch, answered, based):
        """
        In any batch a refused commit changes nothing, and sequences have no gap and no double.
        """
        for each in batch:
            before = copy.deepcopy(thread)
            first, error = judge(each, thread, answered=answered, based=based)
            if error is not None:
                assert (first, thread) == (0, before)
                continue
            assert based
            assert first == before.next_seq
            assert thread.next_seq == first + len(each.checkpoints)
            assert thread.epoch >= before.epoch
            if each.checkpoints:
                assert thread.heads[each.namespace] == each.checkpoints[-1].id

    @settings(max_examples=50)
    @given(threads, commits)
    def test_only_the_run_with_the_claim_stores(self, thread, each):
        """
        A run's commit without a claim is stored only on the head that it has read, by the holder.
        """
        before = copy.deepcopy(thread)

        _, error = judge(each, thread)

        if error is None and each.run is not None and each.claim is None:
            assert before.run == each.run
            assert before.heads.get(each.namespace) == each.head

    @settings(max_examples=50)
    @given(threads, st.booleans(), owners, owners)
    def test_one_of_two_runs_that_read_the_same_thread_wins(self, thread, resumes, mine, theirs):
        """
        Of two claims made from one reading of a thread at most one is accepted.
        """
        read = claim(thread.heads.get(""), holder=thread.run, resumes="i" if resumes else "")
        reader = b"1" * 16, b"2" * 16

        won = [
            judge(commit(run=run, epoch=3, claim=read, owner=owner), thread)[1] is None
            for run, owner in zip(reader, (mine, theirs), strict=True)
        ]

        assert sum(won) <= 1
        assert thread.run in (reader[0], read.holder, reader[1])

    @settings(max_examples=50)
    @given(threads, ids)
    def test_a_fenced_owner_stores_nothing_more(self, thread, head):
        """
        After a system's run was adopted, the saves that the system sent before are refused.
        """
        adopted = AdoptRun(RUN, "t", MINE, THEIRS, 2)
        late = commit(epoch=thread.epoch, head=head)
        if not fence(thread, adopted):
            return

        _, error = judge(late, thread)

        assert error is not None
        assert "leased by another system, during the run" in error.what


class TestFence:
    def test_the_former_owner_loses_thread_and_epoch(self):
        """
        Adopting a run raises the epoch of the thread that its owner leased, and frees the lease.
        """
        thread = state(owner=THEIRS, leased=True)

        assert fence(thread, AdoptRun(RUN, "t", MINE, THEIRS, 2)) is True
        assert thread == state(epoch=4)

    @pytest.mark.parametrize("owner", [None, MINE], ids=["no owner", "a new owner"])
    @pytest.mark.parametrize("was", [None, THEIRS], ids=["of no owner", "of another owner"])
    def test_a_healthy_run_is_left_alone(self, owner, was):
        """
        A thread that is free, or leased by another system since, is not fenced.
        """
        thread = state(owner=owner, leased=owner is not None)
        before = copy.deepcopy(thread)

        assert fence(thread, AdoptRun(RUN, "t", MINE, was, 2)) is False
        assert thread == before

    def test_a_system_that_notes_deaths_of_its_run(self):
        """
        It goes on with its own lease: nothing is fenced.
        """
        thread = state(owner=MINE, leased=True)

        assert fence(thread, AdoptRun(RUN, "t", MINE, MINE, 2, deaths=1)) is False
        assert thread == state(owner=MINE, leased=True)


class TestWhatTheStoreLooksFor:
    def test_a_claim_that_answers_has_rows_of_answers(self):
        """
        The store looks for answers and routed answers, and for no other row of the commit.
        """
        names = [0, *(CONTROL_INDEX[name] for name in (ERROR, INTERRUPT, RESUME, ROUTED))]
        ledger = tuple(row(index) for index in names)

        found = answer_rows(commit(claim=claim(resumes="i"), ledger=ledger))

        assert [each.index for each in found] == [CONTROL_INDEX[RESUME], CONTROL_INDEX[ROUTED]]

    @pytest.mark.parametrize("claimed", [None, claim()], ids=["no claim", "answers nothing"])
    def test_other_commits_have_none(self, claimed):
        """
        A commit that answers no interrupt is not compared with stored answers.
        """
        assert answer_rows(commit(claim=claimed, ledger=(row(CONTROL_INDEX[RESUME]),))) == []

    @pytest.mark.parametrize(
        ("of", "base"),
        [
            (commit(checkpoints=(checkpoint(NEWER, GONE), checkpoint(NEWEST, NEWER))), GONE),
            (commit(checkpoints=(checkpoint(NEWER),)), None),
            (commit(checkpoints=(checkpoint(NEWER, None),)), None),
            (commit(ledger=(row(),)), None),
            (commit(run=None, checkpoints=(checkpoint(NEWER, GONE),)), None),
        ],
        ids=["a branch", "on the head", "the first", "writes alone", "an update"],
    )
    def test_a_branch_has_a_base(self, of, base):
        """
        A run that continues from an older checkpoint needs it; others need only the head.
        """
        assert branch_base(of) == base


def lost(what: str = "a row is too large") -> StorageError:
    return StorageFullError(what, do="store less")


class TestOneByOne:
    def test_each_request_has_its_own_outcome(self):
        """
        Requests are stored in order, each once, and the outcomes are in that order too.
        """
        batch: list[Request] = [commit(number=1), DeleteThread("u"), commit(number=2)]
        stored: list[Request] = []

        def store(request: Request) -> CommitOutcome:
            stored.append(request)
            return Committed(len(stored))

        assert one_by_one(batch, store) == [Committed(1), Committed(2), Committed(3)]
        assert stored == batch

    def test_a_run_gets_the_error_of_its_first_lost_save(self):
        """
        Saves after a lost one are not tried and get its error; other requests are stored.
        """
        error = lost()
        batch: list[Request] = [
            commit(),
            commit(number=3, namespace="a"),
            commit(run=OTHER),
            commit(run=None),
            DeleteThread("u"),
            commit(number=4),
        ]
        stored: list[Request] = []

        def store(request: Request) -> CommitOutcome:
            stored.append(request)
            return Refused(error) if request == batch[0] else Committed()

        outcomes = one_by_one(batch, store)

        assert stored == [batch[0], *batch[2:5]]
        assert [o.error if isinstance(o, Refused) else None for o in outcomes] == [
            error,
            error,
            None,
            None,
            None,
            error,
        ]

    @pytest.mark.parametrize(
        ("first", "error"),
        [
            (commit(), ConflictError("moved", do="wait")),
            (commit(run=None), lost()),
            (DeleteThread("t"), lost()),
        ],
        ids=["a conflict", "an update", "a request of no run"],
    )
    def test_other_refusals_concern_one_request(self, first, error):
        """
        After a conflict, or a lost row of no run, the rest of the batch is still tried.
        """
        stored: list[Request] = []

        def store(request: Request) -> CommitOutcome:
            stored.append(request)
            return Refused(error) if request is first else Committed()

        outcomes = one_by_one([first, commit(number=3), commit(run=None), first], store)

        assert len(stored) == 4
        assert [isinstance(outcome, Refused) for outcome in outcomes] == [True, False, False, True]


class TestLedger:
    @settings(max_examples=25)
    @given(st.data())
    def test_rows_have_one_order(self, data):
        """
        However a store returns them, readers see rows by path, task, index and generation.
        """
        ordered = (
            row(1, path="a", task=b"2", generation=1),
            row(0, path="b", task=b"1", generation=1),
            row(1, path="b", task=b"1", generation=0),
            row(1, path="b", task=b"1", generation=2),
            row(0, path="b", task=b"2", generation=0),
            row(0, path="c", task=b"0", generation=0),
        )

        assert sorted_ledger(data.draw(st.permutations(ordered))) == ordered

"""Saves on top of a save that was not stored are not stored either."""

from typing import Any

import pytest

from actorgraph import InMemorySaver
from actorgraph.errors import ConflictError, StorageError, StorageFullError
from actorgraph.runtime.saver.persistence import PersistenceActor, Receipts
from actorgraph.savers.judge import one_by_one
from actorgraph.testing import FaultPlan, FaultySaver
from actorgraph.values.commits import Claim, Commit, CommitOutcome, Committed, Refused, Request
from actorgraph.values.run import Saved, SaveFailed

RUN = b"r" * 16


def full() -> Exception:
    return StorageFullError("full", do="make room")


def commit(namespace: str = "", run: bytes = RUN, number: int = 1) -> Commit:
    return Commit(
        "t", namespace, run, 1, number, None, Claim(None, "sync") if number == 1 else None
    )


class Run:
    """One supervisor's way to the actor."""

    def __init__(self, actor: PersistenceActor, namespace: str = "", run: bytes = RUN) -> None:
        self.answers: list[Saved | SaveFailed] = []
        self._actor, self._namespace, self._run = actor, namespace, run
        self._receipts = Receipts(self.answers.append)

    def save(self, number: int) -> Any:
        """The number if the save was stored, else the error's text."""
        self._actor.post(commit(self._namespace, self._run, number), self._receipts)
        answer = self.answers[-1]
        return answer.number if isinstance(answer, Saved) else str(answer.error).split("\n")[0]


@pytest.fixture
def actor() -> PersistenceActor:
    """One whose second commit fails."""
    saver = FaultySaver(InMemorySaver(), FaultPlan(2, error=full, lasting=False))
    return PersistenceActor(saver)


class TestGraphsInside:
    def test_they_do_not_outlive_a_lost_save_of_their_run(self, actor):
        """
        After a save of the run was not stored, those of the graphs inside of it are refused.
        """
        root, inside = Run(actor), Run(actor, "a:1")

        assert [root.save(1), root.save(2), inside.save(3)] == [1, "full", "full"]

    def test_theirs_is_not_their_runs(self, actor):
        """
        When a save of a graph inside was not stored, the run that it is in may still store.
        """
        root, inside, below = Run(actor), Run(actor, "a:1"), Run(actor, "a:1|b:2")

        assert root.save(1) == 1
        assert [inside.save(2), below.save(3), root.save(4)] == ["full", "full", 4]

    def test_the_next_run_begins_anew(self, actor):
        """
        The lost saves of one run concern no other one, and are forgotten when it leaves.
        """
        first = Run(actor)
        first.save(1)
        first.save(2)
        actor.forget("t", RUN)

        assert Run(actor, "a:1").save(3) == 3

    def test_a_save_that_can_not_be_encoded_counts_too(self, actor):
        """
        A save that could not even be encoded is one that is not stored.
        """
        inside = Run(actor, "a:1")
        actor.mark_failed(RUN, "", full())

        assert inside.save(2) == "full"


class TestInOneBatch:
    @pytest.mark.parametrize(
        ("error", "stored"),
        [
            (StorageError("row", do="smaller"), [1, 3]),
            (ConflictError("moved", do="wait"), [1, 2, 3]),
        ],
        ids=["a row", "a conflict"],
    )
    def test_a_refused_row_takes_along_what_its_run_stores_after_it(self, error, stored):
        """
        Of a batch whose requests are stored one by one, a run stores nothing after a lost row.
        """
        seen: list[int] = []

        def store(request: Request) -> CommitOutcome:
            assert isinstance(request, Commit)
            if request.number == 0:
                return Refused(error)
            seen.append(request.number)
            return Committed()

        batch = [commit(number=1), commit(number=0), commit("a:1", number=2)]
        one_by_one([*batch, commit(run=b"x" * 16, number=3)], store)

        assert seen == stored

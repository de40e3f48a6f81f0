"""The phase of a thread: one rule, from what is stored of it and of its runs."""

import pytest

from actorgraph.values.systems import NO_OWNER, RunRow
from actorgraph.values.thread_phase import (
    PHASE_TEXT,
    PHASES,
    RECENT_S,
    PhaseFacts,
    phase_named,
    phase_of,
    still_works,
)

OLD, NEW = b"\x01" * 16, b"\x02" * 16
SYSTEM = b"\x09" * 16
LEFT = PhaseFacts(left=True)


def run(status: str = "running", **fields) -> RunRow:
    """A run of a system that has begun it."""
    known = {"claimed": True, "owner": SYSTEM, "alive": True, **fields}
    return RunRow(OLD, "t", "g", status, attempts=1, created=0, metadata="{}", payload=b"", **known)


class TestRule:
    @pytest.mark.parametrize(
        ("facts", "phase"),
        [
            (PhaseFacts(), "ended"),
            (PhaseFacts(held=True), "ended"),
            (LEFT, "unfinished"),
            (PhaseFacts(left=True, asks=True), "waiting"),
            (PhaseFacts(left=True, asks=True, sleeps=True), "sleeping"),
            (PhaseFacts(left=True, failed=True), "failed"),
            (PhaseFacts(left=True, failed=True, asks=True, sleeps=True), "failed"),
            (PhaseFacts(left=True, failed=True, asks=True), "failed"),
            (PhaseFacts(left=True, held=True), "cut_off"),
            (PhaseFacts(left=True, held=True, asks=True, failed=True), "cut_off"),
            (PhaseFacts(left=True, held=True, works=True), "running"),
            (PhaseFacts(left=True, held=True, asks=True, failed=True, works=True), "running"),
            (PhaseFacts(held=True, works=True), "ended"),
        ],
    )
    def test_without_runs_of_systems_the_claim_and_the_tasks_say_it(self, facts, phase):
        """
        A claim without an end on unfinished work is a thread that runs or was cut off, whatever its
        tasks have stored; else a failure comes before a question, and a question before a sleep.
        """
        assert phase_of(facts) == phase

    @pytest.mark.parametrize(
        ("runs", "phase"),
        [
            ([run()], "running"),
            ([run("pending", claimed=False, alive=False)], "running"),
            ([run("pending", owner=NO_OWNER, alive=False)], "running"),
            ([run("pending", owner=None, alive=False)], "running"),
            ([run(alive=False)], "cut_off"),
            ([run("pending", alive=False)], "cut_off"),
            ([run(alive=False), run("pending", claimed=False)], "running"),
            ([run("parked", alive=False)], "parked"),
            ([run("parked", alive=False), run("pending", claimed=False)], "running"),
        ],
    )
    def test_open_runs_come_before_what_is_stored_of_the_thread(self, runs, phase):
        """
        A run that a system has begun and whose lease is over was cut off; one that only waits for a
        worker was not. A parked run counts while no other one is open.
        """
        assert phase_of(PhaseFacts(left=True, asks=True, held=True), runs) == phase

    @pytest.mark.parametrize(
        ("head", "claimed", "phase"),
        [
            (OLD, True, "parked"),
            (None, True, "parked"),
            (NEW, True, "ended"),
            (NEW, False, "parked"),
        ],
    )
    def test_a_parked_run_counts_until_its_thread_has_gone_on(self, head, claimed, phase):
        """
        A later run that has stored a checkpoint has left the parked one behind; one that never
        began still waits to be run again.
        """
        assert phase_of(PhaseFacts(run=head), [run("parked", claimed=claimed)]) == phase


RECENT = int(RECENT_S * 1_000_000)
NOW = 10 * RECENT


class TestStillWorks:
    @pytest.mark.parametrize(
        ("known", "saved", "works"),
        [
            (None, NOW, True),
            (None, NOW - RECENT + 1, True),
            (None, NOW - RECENT, False),
            (None, 0, False),
            (None, NOW + RECENT - 1, True),
            (None, NOW + RECENT, False),
            (True, 0, True),
            (False, NOW, False),
        ],
    )
    def test_a_process_knows_its_own_runs_and_others_have_the_time_of_their_saves(
        self, known, saved, works
    ):
        """
        A run of another process works until its last save is old; a time that lies far ahead
        counts as old. Of its own runs a process knows it, however long they have stored nothing.
        """
        assert still_works(known, saved, NOW) is works


class TestNames:
    def test_each_phase_is_found_by_what_people_write(self):
        """
        The name, the text, and the name with other signs between its words name the same phase.
        """
        for phase in PHASES:
            for text in (phase, PHASE_TEXT[phase], phase.replace("_", "-"), phase.upper()):
                assert phase_named(text) == phase
        assert phase_named("idle") is None

"""Rules about threads that a graph runs: input, question, answer, update, fork, crash."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from actorgraph import Command
from actorgraph.errors import SaverBrokenError
from actorgraph.superstep.list_rows import ROW_ITEMS_MAX, ROWS_MAX
from tests.savers.machine.base import Machine, pick
from tests.savers.machine.draws import graphs, picks, points_of_failure
from tests.savers.machine.model import Point
from tests.support.graphs import at

LONG = ROW_ITEMS_MAX + 1
"""So many items at once fill a row of a list."""


def numbered(text: str, count: int) -> list[str]:
    """Texts that differ, so that their order shows."""
    return [text, *(f"{text}{number}" for number in range(1, count))]


class Runs(Machine):
    """Runs a graph that asks a question; a crash leaves the beginning of what a run makes."""

    def ran(self, thread: str, wanted: list[Point], *, crashed: bool = False) -> int:
        """Take over the ids of what a run has added: as wanted, or after a crash its beginning."""
        known = len(self.model.there(thread))
        states = self.states(thread)[::-1]
        new = states[known:]
        assert len(new) == len(wanted) or (crashed and len(new) < len(wanted)), (len(new), wanted)
        run = new[0].metadata["run_id"] if new else None
        for state, point in zip(new, wanted, strict=False):
            assert state.metadata["run_id"] == run
            assert state.next == point.next
            point.id, point.run = state.config["configurable"]["checkpoint_id"], run
            earlier = self.model.head(thread)
            if point is not wanted[0]:
                point.parent = earlier and earlier.id
            self.model.add(thread, point)
        self.check(thread)
        return len(new)

    def after(self, head: Point, answer: str | None) -> list[Point]:
        """The effect of a run on a checkpoint until it pauses or ends."""
        bar, foo, due = head.values["bar"], head.values.get("foo"), head.next
        found: list[Point] = []
        step, given = head.step, head.given
        while due:
            (node,) = due
            if node == "ask" and answer is None:
                break
            added = {"__start__": [*given], "a": ["a"], "ask": ["ask", answer], "b": ["b"]}[node]
            bar, foo = [*bar, *added], "b" if node == "b" else foo
            due = {"__start__": ("a",), "a": ("ask",), "ask": ("b",), "b": ()}[node]
            answer, step = None if node == "ask" else answer, step + 1
            found.append(Point("", head.id, "", {"bar": bar, "foo": foo}, "loop", step, next=due))
        return found

    def invoke(self, thread: str, given: Any, wanted: list[Point], fails: int | None) -> None:
        if fails is None:
            self.call(self.graph.ainvoke, given, at(thread))
            self.ran(thread, wanted)
            self.unsure.discard(thread)
            return
        self.plan.when = "after" if fails % 2 else "before"
        self.plan.fail_at = len(self.plan.operations) + 1 + fails // 2
        try:
            self.call(self.graph.ainvoke, given, at(thread))
        except SaverBrokenError:
            self._reopen(self.folder)
            self.ran(thread, wanted, crashed=True)
            self.unsure.add(thread)
            return
        self.plan.fail_at = None
        self.ran(thread, wanted)
        self.unsure.discard(thread)

    @rule(
        thread=graphs,
        text=st.text("cd", min_size=1, max_size=2),
        count=st.sampled_from([1, 1, 3, LONG]),
        fails=points_of_failure,
    )
    def begin(self, thread, text, count, fails) -> None:
        head = self.model.head(thread)
        values = {"bar": head.values["bar"], "foo": head.values.get("foo")} if head else {"bar": []}
        step = head.step + 1 if head else -1
        texts = tuple(numbered(text, count))
        first = Point(
            "", head and head.id, "", values, "input", step, next=("__start__",), given=texts
        )
        self.invoke(thread, {"bar": [*texts]}, [first, *self.after(first, None)], fails)

    def paused(self, thread: str) -> Point | None:
        head = self.model.head(thread)
        return head if head and head.next == ("ask",) and thread not in self.unsure else None

    @rule(thread=graphs, answer=st.text("yz", min_size=1, max_size=2), fails=points_of_failure)
    def resume(self, thread, answer, fails) -> None:
        head = self.paused(thread)
        if head is None or not self.states(thread)[0].interrupts:
            return
        self.invoke(thread, Command(resume=answer), self.after(head, answer), fails)

    @rule(thread=graphs)
    def go_on(self, thread) -> None:
        """After any crash, `invoke(None)` takes the run up."""
        head = self.model.head(thread)
        if head is None or head.next in {("ask",), ()} or thread not in self.unsure:
            return
        self.invoke(thread, None, self.after(head, None), None)

    @rule(
        thread=graphs,
        at_=picks,
        fork=st.booleans(),
        texts=st.lists(st.text("uvw", min_size=2, max_size=4), min_size=1, max_size=3),
    )
    def update(self, thread, at_, fork, texts) -> None:
        there = self.model.there(thread)
        base = pick(there, at_) if fork else self.model.head(thread)
        if base is None or base.next == ("__start__",):
            return
        for text in texts if fork else texts[:1]:
            self.update_at(thread, base, [text], fork=fork)
        self.ask(thread)

    @rule(thread=graphs, text=st.text("uvw", min_size=2, max_size=4))
    def pile(self, thread, text) -> None:
        """Make a list so long that a saver puts rows of it together."""
        head = self.model.head(thread)
        if head is None or head.next == ("__start__",) or len(head.values["bar"]) > LONG * 3:
            return
        for number in range(ROWS_MAX):
            base = self.model.head(thread)
            assert base is not None
            self.update_at(thread, base, numbered(f"{text}{number}", LONG), fork=False)
        self.ask(thread)

    def ask(self, thread: str) -> None:
        self.call(self.graph.ainvoke, None, at(thread))  # it asks
        self.unsure.discard(thread)
        self.check(thread)

    def update_at(self, thread: str, base: Point, texts: list[str], *, fork: bool) -> None:
        """One update; as a fork it says which checkpoint it is of."""
        place = at(thread, checkpoint_id=base.id) if fork else at(thread)
        given = {"bar": texts, "foo": texts[-1]}
        self.call(self.graph.aupdate_state, place, given, as_node="a")
        values = {"bar": [*base.values["bar"], *texts], "foo": texts[-1]}
        point = Point("", base.id, "", values, "update", base.step + 1, next=("ask",))
        state = self.call(self.graph.aget_state, at(thread))
        point.id = state.config["configurable"]["checkpoint_id"]
        point.run = state.metadata.get("run_id")
        self.model.add(thread, point)

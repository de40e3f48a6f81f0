"""Texts of errors of runs that can't be resumed, or that end at their deadline."""

import pytest

from actorgraph.errors import (
    AlreadyResumedError,
    DeadlineError,
    EmptyInputError,
    SaverRequiredError,
)
from actorgraph.values.commands import Command
from tests.superstep.script import Script, chain
from tests.superstep.threads import PAIR, State, parallel, thread, three


class TestAnswers:
    def test_one_to_an_empty_thread(self):
        """
        A resume of a thread without a checkpoint names the thread, and asks for the right one.
        """
        with pytest.raises(EmptyInputError) as refused:
            Script(PAIR).begin(Command(resume="x"))

        assert refused.value.what == (
            "Command(resume=...) has nothing to resume: thread 't' has no checkpoint"
        )
        assert refused.value.do == "use the thread_id and the checkpointer of the run that asked"

    def test_one_without_a_saver(self):
        """
        A resume of a graph without a saver names the graph.
        """
        with pytest.raises(SaverRequiredError) as refused:
            Script(PAIR, saver=False).begin(Command(resume="x"))

        assert refused.value.what == (
            "Cannot use Command(resume=...) without a checkpointer: graph 'g' has none, so no run "
            "of it waits for an answer"
        )
        assert refused.value.do == (
            "compile(checkpointer=...), and resume with the thread_id of the run that asked"
        )

    @pytest.mark.parametrize(
        ("asking", "more"),
        [(("a",), ""), (("a", "b"), " and 1 more"), (("a", "b", "c"), " and 2 more")],
    )
    def test_one_to_a_question_that_is_not_open(self, asking, more):
        """
        The error names the id that was given, an open one, and how many others are open.
        """
        first = three()
        for name in asking:
            first.ask(name, f"{name}?")
        for name in first.names:
            first.fail(name, ValueError("no"))
        first.saved()
        open_one = min(e.writes[0][1][0].id for e in first.store.ledger if e.index == -3)
        with pytest.raises(AlreadyResumedError) as refused:
            Script(first.plan, store=first.store).begin(Command(resume={"f" * 32: "x"}))

        assert refused.value.what == (
            "no question of thread 't' waits for this answer: no open question has the id "
            f"'{'f' * 32}'; it was answered, or is not of this thread"
        )
        assert refused.value.do == (
            f"answer an open one: Command(resume={{'{open_one}': ...}}){more}; they are in "
            "get_state(config).interrupts"
        )

    def test_one_to_a_thread_that_asks_nothing(self):
        """
        The error names the thread, and shows where questions are found.
        """
        with pytest.raises(AlreadyResumedError) as refused:
            Script(PAIR, store=thread(finished=("a",))).begin(Command(resume={"f" * 32: "x"}))

        assert refused.value.what == "no question of thread 't' waits for this answer"
        assert refused.value.do == (
            "read get_state(config).interrupts to see what waits; None goes on without an answer"
        )


class TestDeadline:
    @pytest.mark.parametrize(
        ("saver", "advice"),
        [
            (True, "finished work is saved; ainvoke(None, config) goes on"),
            (
                False,
                "with a checkpointer it could go on from here",
            ),
        ],
    )
    def test_it_names_the_nodes_that_are_due(self, saver, advice):
        """
        Only with a saver the error says that work is saved.
        """
        run = Script(chain(State, "a"), saver=saver)
        run.state.stopping = lambda: "deadline"
        run.begin({"text": "x"})
        error = run.state.outcome.error

        assert type(error) is DeadlineError
        assert error.what == "the run of graph 'g' reached its deadline_s before node 'a'"
        assert error.do == f"pass a longer deadline_s; {advice}"
        assert error.reason == "deadline"

    def test_it_names_all_that_are_due(self):
        """
        Several nodes are named in the order of the alphabet.
        """
        run = Script(parallel("b", "a"), saver=False)
        run.state.stopping = lambda: "deadline"
        run.begin({"text": "x"})

        assert run.state.outcome.error.what == (
            "the run of graph 'g' reached its deadline_s before node 'a', 'b'"
        )

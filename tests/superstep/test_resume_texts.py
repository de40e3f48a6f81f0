"""Texts of errors of runs that can't be resumed, or that end at their deadline."""

import pytest

from actorgraph.errors import DeadlineError, EmptyInputError, SaverRequiredError
from actorgraph.values.commands import Command
from tests.superstep.script import Script, chain
from tests.superstep.threads import PAIR, State


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

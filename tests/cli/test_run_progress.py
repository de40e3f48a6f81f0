"""The view of a run, folded from chunks by hand, and its drawing; hostile texts in outputs."""

from io import StringIO

import pytest
from rich.console import Console

from actorgraph.cli.live_view import drawn_run
from actorgraph.cli.run_progress import RunProgress
from actorgraph.messages import AIMessage
from tests.cli.command_runs import GRAPH


def piece(node, text, identity):
    return AIMessage(content=text, id=identity), {"langgraph_node": node}


def drawn(view: RunProgress, width: int) -> list[str]:
    """The lines of a view ten seconds after it began."""
    file = StringIO()
    out = Console(file=file, width=width, color_system=None)
    out.print(drawn_run(view, "app:graph  thread t1", 10.0, 10.0, width))
    return [line.rstrip() for line in file.getvalue().splitlines()]


class TestMessages:
    def test_nodes_that_talk_together_have_a_message_each(self):
        """
        Pieces are joined by node, also when those of two nodes come by turns.
        """
        view = RunProgress.of(["a", "b"])
        for node, text in [("a", "one "), ("b", "eins "), ("a", "two"), ("b", "zwei")]:
            view.take((), "messages", piece(node, text, node), 1.0)

        assert view.messages == {"a": "one two", "b": "eins zwei"}
        assert view.end() == ["a says: one two", "b says: eins zwei"]
        assert view.messages == {}

    def test_the_next_message_of_a_node_ends_the_one_before(self):
        """
        Another id begins another message; the whole one becomes a line.
        """
        view = RunProgress.of(["a"])
        view.take((), "messages", piece("a", "one", "1"), 1.0)

        assert view.take((), "messages", piece("a", "two", "2"), 1.0) == ["a says: one"]
        assert view.messages == {"a": "two"}


class TestNodes:
    def test_a_task_that_ended_in_an_earlier_run_is_done(self):
        """
        Where a thread goes on, only the unfinished tasks are queued, and no step is counted.
        """
        view = RunProgress.of(["a", "b"])
        tasks = [{"name": "a", "result": {}}, {"name": "b"}]
        chunk = {"metadata": {"step": 3, "source": "loop"}, "tasks": tasks}

        assert view.take((), "checkpoints", chunk, 0.0) == []
        assert {node.name: node.state for node in view.nodes.values()} == {
            "a": "done",
            "b": "queued",
        }
        assert view.steps == 0

    @pytest.mark.parametrize("width", [80, 140])
    def test_the_view_fits_the_terminal(self, width):
        """
        One row for each node; long notes are cut, and control characters are spaces.
        """
        view = RunProgress.of(["a", "b", "c"])
        start = {"id": "1", "name": "a", "input": {}, "triggers": ()}
        view.take((), "tasks", start, 1.0)
        end = {"id": "1", "name": "a", "error": None, "interrupts": [], "result": {"k": "x" * 500}}
        view.take((), "tasks", end, 3.5)
        view.take((), "tasks", {**start, "name": "b"}, 4.0)
        view.take((), "messages", piece("b", "hello \x1b[31mworld", "m"), 5.0)

        lines = drawn(view, width)

        assert lines[0] == "app:graph  thread t1   0 steps   10.0 s"
        assert lines[1].startswith('+  a  done     2.50 s  {"k":"xxx')
        assert lines[2] == ">  b  running  6.00 s"
        assert lines[-1] == "b: hello \ufffd[31mworld"
        assert max(map(len, lines)) == width


class TestHostileTexts:
    def test_stored_texts_do_not_steer_the_terminal(self, call):
        """
        Escape sequences in ids, values and errors are printed as spaces and plain letters.
        """
        text, config = '{"text": "\\u001b[2J"}', '{"metadata": {"by": "\\u001b[31m"}}'
        begun = call("run", GRAPH, "--input", text, "--thread", "t1", "--config", config)
        refused = call("run", GRAPH, "--input", text, "--thread", "\x1b]0;owned\x07t")
        shown = [call("show", "t1"), call("diff", "t1", "0"), call("tail", "t1"), call("threads")]

        assert "[2J, drafted" in begun.out
        assert "[31m" in shown[0].out
        assert "owned" in refused.err
        assert "\x1b" not in "".join(ran.out + ran.err for ran in [begun, refused, *shown])

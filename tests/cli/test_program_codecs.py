"""Commands with --db and --graph read and write a database as the program's own saver would."""

import pytest

from actorgraph.cli.command_line import main
from actorgraph.cli.places import saver_at
from tests.cli.conftest import place_of
from tests.cli.converted_app import CODEC, KEYED, Tensor, compiled
from tests.support.graphs import at

APP = "tests.cli.converted_app"
GRAPHS = {"graph": CODEC, "keyed": KEYED}


@pytest.fixture(params=GRAPHS)
def named(request, monkeypatch):
    """The name of a graph whose saver converts, or encrypts too."""
    name = f"{APP}:{request.param}"
    monkeypatch.setenv("ACTORGRAPH_GRAPH", name)
    return name


@pytest.fixture
def run(call_stored, named, monkeypatch):
    """Call commands on a place where `run` has stored a thread that waits."""
    monkeypatch.setenv("ACTORGRAPH_GRAPH", named)
    assert call_stored("run", named, "--input", "{}", "--thread", "t").code == 0
    return call_stored


def state_at(place, codec):
    """The state of the thread, as the program reads it."""
    with saver_at(place, codec=codec) as saver:
        return compiled(codec).copy(update={"checkpointer": saver}).get_state(at("t"))


@pytest.mark.every_saver
class TestNamedDatabase:
    def test_commands_show_and_answer_it(self, run, named, store):
        """
        `run`, `show`, `history`, `check` and `resume` store and read what the saver of the program
        converts and encrypts.
        """
        for words in (["show", "t"], ["history", "t"], ["check", named]):
            ran = run(*words)
            assert ran.code == 0, ran.err
        assert "Tensor([1, 2])" in run("show", "t").out
        assert run("resume", "t", "--answer", "4").code == 0

        values = state_at(place_of(store), GRAPHS[named.partition(":")[2]]).values
        assert values == {"t": Tensor([1, 2]), "log": [Tensor([3]), 4]}

    def test_threads_move_with_their_values(self, run, named, store, tmp_path, capsys):
        """
        An exported thread comes back in another database, its question and values as they were.
        """
        file, other = str(tmp_path / "t.jsonl"), str(tmp_path / "other.db")
        assert run("export", "-o", file).code == 0
        assert main(["import", file, other]) == 0

        codec = GRAPHS[named.partition(":")[2]]
        before, after = (state_at(place, codec) for place in (place_of(store), other))
        assert after.values == before.values == {"t": Tensor([1, 2]), "log": [Tensor([3])]}
        assert after.interrupts == before.interrupts
        assert after.interrupts[0].value == {"about": Tensor([1, 2])}

    def test_without_the_graph_nothing_is_imported(self, run, tmp_path, capsys, monkeypatch):
        """
        A command that doesn't know a value's type names it, advises to name the graph, and has
        stored no part of the thread.
        """
        file, other = str(tmp_path / "t.jsonl"), str(tmp_path / "other.db")
        assert run("export", "-o", file).code == 0
        monkeypatch.delenv("ACTORGRAPH_GRAPH")
        capsys.readouterr()

        assert main(["import", file, other]) == 1
        said = capsys.readouterr().err
        assert "of thread 't': a stored value has the type" in said
        assert "add --graph app.py:graph" in said
        with saver_at(other) as saver:
            assert saver.list_threads() == []


@pytest.mark.every_saver
def test_a_keyed_program_stores_no_plain_value(call_stored, store):
    """
    `run --db` of a program whose saver has keys leaves no plain value in the database.
    """
    name = f"{APP}:keyed"
    assert call_stored("run", name, "--input", '{"log": ["secret"]}', "--thread", "t").code == 0

    shown = call_stored("show", "t")
    assert shown.code == 1
    assert "encrypted" in shown.err
    assert state_at(place_of(store), KEYED).values["log"][0] == "secret"

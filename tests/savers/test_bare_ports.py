"""Savers with the port's methods alone; answers that are missing; names of a base class."""

import sys

import anyio
import pytest

from actorgraph import START, ActorSystem, GraphBuildError, StateGraph
from actorgraph.checkpoints import HostedSaver
from actorgraph.errors import SaverBrokenError
from actorgraph.savers.memory.saver import MemoryBackend
from tests.savers.places import LogSaver
from tests.support.warm_processes import run

PROGRAM = """
import threading
from actorgraph import START, StateGraph
from tests.savers.places import LogSaver

log = []
saver = LogSaver(log)
graph = StateGraph(dict).add_node("a", lambda s: {"x": 1}).add_edge(START, "a")
graph = graph.compile(checkpointer=saver)


def fill():  # in a thread: the command imports the program in its event loop
    graph.invoke({"y": 1}, {"configurable": {"thread_id": "t-of-log"}})
    graph.checkpointer.close_blocking()

filling = threading.Thread(target=fill)
filling.start()
filling.join()

def make():
    return LogSaver(log)

wrong = 7
"""


def one_node(saver):
    graph = StateGraph(dict).add_node("a", lambda _: {"x": 1}).add_edge(START, "a")
    return graph.compile(checkpointer=saver)


def at(thread="t"):
    return {"configurable": {"thread_id": thread}}


class Answers(LogSaver):
    """Returns what `shape` makes of the answers, in `commit`, `query` or their blocking twins."""

    def __init__(self, name, shape):
        super().__init__([])
        self.shaped, self.shape = name, shape
        self.immediate = name.endswith("_now")
        self._memory = MemoryBackend()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in ("commit", "query") or name != self.shaped:
            return found

        async def answer(given):
            return self.shape(await found(given))

        return answer

    def commit_now(self, batch):
        return self.given("commit_now", self._memory.commit_now(batch))

    def query_now(self, queries):
        return self.given("query_now", self._memory.query_now(queries))

    def given(self, name, answers):
        return self.shape(answers) if name == self.shaped else answers


class Hosted(HostedSaver, MemoryBackend):
    """A class of a program over a backend."""

    durable = False


class TestPrograms:
    async def test_a_system_runs_over_it(self):
        """
        An ActorSystem takes a saver of four methods, and its threads are listed, copied and pruned.
        """
        graph = one_node(LogSaver([]))
        async with ActorSystem({"g": graph}) as system:
            assert await (await system.start("g", "t", {"y": 1})).result() == {"x": 1}
            await system.saver.acopy_thread("t", "u")
            assert await system.saver.alist_threads() == ["t", "u"]

    def test_its_wrapper_is_shared(self):
        """
        All graphs over one saver have one wrapper, so that one actor writes to it.
        """
        saver = LogSaver([])

        assert one_node(saver).checkpointer is one_node(saver).checkpointer

    @pytest.mark.parametrize(
        ("name", "seen"),
        [
            ("app_of_log:saver", "t-of-log"),
            ("app_of_log.py:make", "t-of-log"),
            ("app_of_log:wrong", "not a saver"),
            ("app_of_log:absent", "has no 'absent'"),
        ],
    )
    def test_the_command_takes_its_name(self, tmp_path, name, seen):
        """
        `--db module:saver` opens a saver of a program, or what a function of it makes.
        """
        (tmp_path / "app_of_log.py").write_text(PROGRAM)
        path = f"{tmp_path}:{':'.join(filter(None, sys.path))}"
        env = {"PYTHONPATH": path, "COLUMNS": "200", "PATH": ""}
        ran = run(["-m", "actorgraph", "threads", "--db", name], cwd=tmp_path, env=env)

        assert seen in ran.stdout + ran.stderr


class TestAnswers:
    @pytest.mark.parametrize("name", ["commit", "query", "commit_now", "query_now"])
    @pytest.mark.parametrize(
        "shape",
        [lambda a: a[:-1], lambda a: [*a, a[0]], lambda _: None, lambda a: dict(enumerate(a))],
        ids=["fewer", "more", "none", "no list"],
    )
    async def test_a_wrong_number_is_an_error(self, name, shape):
        """
        A saver that answers too few or too many requests fails the call, and is named.
        """
        graph = one_node(Answers(name, shape))

        with anyio.fail_after(10), pytest.raises(SaverBrokenError, match=f"Answers.{name}"):
            await graph.ainvoke({"y": 1}, at())

    def test_a_blocking_call_fails_too(self):
        """
        `invoke` raises where it would wait for an answer that never comes.
        """
        graph = one_node(Answers("query", lambda a: a[:-1]))

        with pytest.raises(SaverBrokenError, match=r"Answers.query\(\) returned 0 answers for 1"):
            graph.invoke({"y": 1}, at())


class TestHostedSaver:
    async def test_it_needs_no_codec(self):
        """
        A class of a program over HostedSaver has all methods of savers.
        """

        class Own(HostedSaver, LogSaver):
            pass

        async with Own([]) as saver:
            await one_node(saver).ainvoke({"y": 1}, at())
            assert await saver.alist_threads() == ["t"]

    @pytest.mark.parametrize("name", ["_ask", "_host", "_tuple", "_store", "_request"])
    def test_taken_names_are_refused(self, name):
        """
        A method with the name of a private one of the base is refused when the class is made.
        """
        with pytest.raises(GraphBuildError, match=f"Mine has '{name}'.*\n.*rename it"):
            type("Mine", (Hosted,), {name: lambda self: None})

    def test_other_names_are_free(self):
        """
        Private names that the base doesn't use are the program's.
        """
        made = type("Mine", (Hosted,), {"_opened": 1, "_rows": 2})

        assert vars(made)["_rows"] == 2

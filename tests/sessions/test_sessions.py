"""Sessions: turns that are called once, whatever happens between them."""

import time
from functools import partial
from textwrap import dedent

import anyio
import pytest

from actorgraph import SqliteSaver
from actorgraph.errors import ConflictError, InvalidConfigError, SerializationError
from actorgraph.sessions import Session, SessionSaver, session
from tests.sessions.engines import Journal
from tests.support.warm_processes import run

pytestmark = pytest.mark.every_saver

TWO_TURNS = """
import os, sys
from actorgraph import JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.sessions import session

kind, path, schema, log, dies = sys.argv[1:]


def turn(name):
    with open(log, "a") as file:
        file.write(name)
    if name == dies:
        os._exit(1)
    return {"said": name}


def first():
    return turn("1")


def second(before):
    return turn("2") | {"after": before["said"]}


if kind == "postgres":
    made = PostgresSaver(path, schema=schema)
else:
    made = {"sqlite": SqliteSaver, "jsonl": JsonlSaver}[kind](path)

with made as saver, session("x", saver) as chat:
    one = chat.turn(first)
    chat.state["seen"] = one["said"]
    print(chat.turn(second, one), chat.state, chat.turns)
"""


class Turns:
    """Functions that say in `log` that they were called."""

    def __init__(self) -> None:
        self.log: list = []

    def greet(self, name):
        self.log.append(("greet", name))
        return {"hello": name}

    async def answer(self, text):
        self.log.append(("answer", text))
        return [text, len(self.log)]

    async def count(self, end):
        self.log.append(("count", end))
        for number in range(end):
            yield number

    def spell(self, word):
        self.log.append(("spell", word))
        yield from word

    def fail(self):
        self.log.append("fail")
        raise OSError("no")


class TestRestarts:
    @pytest.mark.promise("S218", "S221")
    @pytest.mark.parametrize("store", ["sqlite", "jsonl", "postgres"], indirect=True)
    def test_a_turn_that_is_over_is_not_called_again(self, store, tmp_path):
        """
        Process 1 dies in turn 2. Process 2 does not call turn 1, and calls turn 2 from its start.
        """
        log = tmp_path / "log"
        place = [store.kind, store.url or str(tmp_path / "place"), store.schema, str(log)]
        command = ["-c", dedent(TWO_TURNS), *place]

        assert run([*command, "2"]).returncode == 1
        told = run([*command, ""])

        assert told.returncode == 0, told.stderr
        assert log.read_text() == "122"
        assert told.stdout.strip() == "{'said': '2', 'after': '1'} {'seen': '1'} 2"

    @pytest.mark.promise("S218", "D14")
    async def test_over_every_saver(self, store):
        """
        A session of the same id replays the stored turns, streamed ones too, and goes on; each
        turn names the one before it as its parent.
        """
        turns = Turns()

        async def all_of_it(chat):
            said = [await chat.aturn(turns.greet, "ada")]
            chat.state["n"] = 1
            said += [n async for n in chat.astream(turns.count, 3)]
            said.append(await chat.aturn(turns.answer, "x"))
            return said

        async with store.saver() as saver, session("t", saver) as chat:
            first = await all_of_it(chat)
        called = list(turns.log)
        async with store.again() as saver:
            async with session("t", saver) as chat:
                assert chat.waiting == 3
                assert await all_of_it(chat) == first
                assert (chat.waiting, chat.turns, chat.state) == (0, 3, {"n": 1})
                assert turns.log == called
                await chat.aturn(turns.greet, "bob")
            points = await SessionSaver(saver).alist("t")

        assert turns.log == [*called, ("greet", "bob")]
        assert [point.parent_id for point in points] == [*(p.id for p in points[1:]), None]
        assert [point.metadata["result"] for point in points] == [
            {"hello": "bob"},
            ["x", 3],
            [0, 1, 2],
            {"hello": "ada"},
        ]

    @pytest.mark.promise("S218")
    def test_blocking(self, store):
        """
        The same in a program without an event loop.
        """
        turns = Turns()
        for _ in range(2):
            with store.again() as saver, session("t", saver) as chat:
                assert chat.turn(turns.greet, "ada") == {"hello": "ada"}
                assert list(chat.stream(turns.spell, "abc")) == ["a", "b", "c"]

        assert turns.log == [("greet", "ada"), ("spell", "abc")]

    @pytest.mark.promise("S219")
    def test_without_a_saver_they_last_as_long_as_the_process(self):
        """
        A thread id alone: a second session of it replays the turns, and says that they don't
        last.
        """
        turns = Turns()
        for _ in range(2):
            with session(thread_id="only here") as chat:
                chat.turn(turns.greet, "ada")
                assert not chat.durable
        with session(thread_id="another") as chat:
            chat.turn(turns.greet, "bob")

        assert turns.log == [("greet", "ada"), ("greet", "bob")]

    def test_without_an_id_nothing_is_stored(self):
        """
        Every turn is called; a saver without an id is refused.
        """
        turns = Turns()
        for _ in range(2):
            with session() as chat:
                assert chat.turn(turns.greet, "ada") == {"hello": "ada"}
                assert chat.checkpoint is None
        with pytest.raises(InvalidConfigError):
            session(saver=SqliteSaver("x.db"))
        wrong: list = [7, SqliteSaver, Journal]
        for saver in wrong:
            with pytest.raises(InvalidConfigError):
                session("t", saver)

        assert len(turns.log) == 2

    def test_a_chat_of_one_request_a_turn(self, store):
        """
        With `replay=False` what is stored is over: every turn is new, and follows the last one.
        """
        turns = Turns()
        with store.saver() as saver:
            for name in ("ada", "bob", "cyd"):
                with session("t", saver, replay=False) as chat:
                    before = chat.state.get("last")
                    chat.state["last"] = name
                    chat.turn(turns.greet, name)
                    assert before == (turns.log[-2][1] if len(turns.log) > 1 else None)
                    assert chat.turns == len(turns.log)
            points = SessionSaver(saver).list("t")

        assert [p.metadata["result"]["hello"] for p in points] == ["cyd", "bob", "ada"]
        assert [p.state.get("last") for p in points] == ["cyd", "bob", "ada"]
        assert [p.parent_id for p in points] == [points[1].id, points[2].id, None]

    async def test_long_sessions(self, tmp_path):
        """
        More turns than a page of checkpoints are replayed in order.
        """
        async with SqliteSaver(tmp_path / "runs.db", synchronous="OFF") as saver:
            for _ in range(2):
                turns = Turns()
                async with session("t", saver) as chat:
                    said = [await chat.aturn(turns.answer, str(n)) for n in range(120)]

        assert turns.log == []
        assert said == [[str(n), n + 1] for n in range(120)]


class TestFailures:
    @pytest.mark.promise("S221")
    def test_a_turn_that_fails_is_not_stored(self, store):
        """
        Its error is the caller's, the state is as before it, and it is called again from its start.
        """
        turns = Turns()
        with store.saver() as saver, session("t", saver) as chat:
            chat.turn(turns.greet, "ada")
            chat.state["n"] = 1

            def spoil():
                chat.state["n"] = 2
                chat.state["more"] = True
                turns.fail()

            for _ in range(2):
                with pytest.raises(OSError, match="no"):
                    chat.turn(spoil)
                assert chat.state == {"n": 1}
            assert len(SessionSaver(saver).list("t")) == 1

        assert turns.log.count("fail") == 2

    @pytest.mark.promise("S224")
    def test_values_that_are_not_json_are_refused(self, store):
        """
        A result or a state that isn't JSON is an error that names the path.
        """
        with store.saver() as saver, session("t", saver) as chat:
            with pytest.raises(TypeError, match=r"\['result'\]\['a'\] is of type set"):
                chat.turn(lambda: {"a": {1}})
            chat.state["x"] = {1: 2}
            with pytest.raises(SerializationError, match="state"):
                chat.turn(lambda: 1)
            assert SessionSaver(saver).get("t") is None
            del chat.state["x"]
            assert chat.turn(lambda: (1, (2,))) == [1, [2]]

    async def test_turns_have_an_order(self, saver):
        """
        A stored turn of another name or kind doesn't answer the call: a ConflictError, and
        the right one may still be asked.
        """
        turns = Turns()
        async with session("t", saver) as chat:
            await chat.aturn(turns.greet, "ada")
        async with session("t", saver) as chat:
            with pytest.raises(ConflictError, match=r"Turns\.greet"):
                await chat.aturn(turns.answer, "x")
            with pytest.raises(ConflictError):
                [n async for n in chat.astream(turns.greet, "ada")]
            assert await chat.aturn(turns.greet, "ada") == {"hello": "ada"}

    async def test_one_session_at_a_time(self, saver):
        """
        A session that another one has overtaken stores nothing more; nor is there a turn in a turn.
        """
        turns = Turns()
        async with session("t", saver) as slow, session("t", saver) as fast:
            await fast.aturn(turns.greet, "ada")
            with pytest.raises(ConflictError, match="another session"):
                await slow.aturn(turns.greet, "bob")

            async def nested():
                await fast.aturn(turns.greet, "cyd")

            with pytest.raises(ConflictError, match="still active"):
                await fast.aturn(nested)
        assert len(await SessionSaver(saver).alist("t")) == 1

    async def test_a_stream_that_is_left_is_not_stored(self, saver):
        """
        Only what was taken to its end is a turn; the next session asks for it anew.
        """
        turns = Turns()
        async with session("t", saver) as chat:
            pieces = chat.astream(turns.count, 3)
            assert await anext(pieces) == 0
            await pieces.aclose()
            assert await SessionSaver(saver).aget("t") is None
            assert [n async for n in chat.astream(turns.count, 2)] == [0, 1]

        assert turns.log == [("count", 3), ("count", 2)]


class Sleepy(Journal):
    """A saver whose puts take long, as a plain blocking one may."""

    def put(self, *arguments, **named):
        time.sleep(0.3)
        return super().put(*arguments, **named)


class TestPlainSavers:
    @pytest.mark.promise("S191", "S222")
    async def test_any_object_with_the_four_methods_drives_a_session(self, tmp_path):
        """
        A class that knows nothing of this library keeps a session, sync and async.
        """
        turns = Turns()
        for _ in range(2):
            async with session("t", Journal(tmp_path / "journal")) as chat:
                assert isinstance(chat, Session)
                await chat.aturn(turns.greet, "ada")
                assert [n async for n in chat.astream(turns.count, 2)] == [0, 1]
            with session("u", Journal(tmp_path / "journal")) as chat:
                chat.turn(turns.greet, "bob")

        assert turns.log == [("greet", "ada"), ("count", 2), ("greet", "bob")]

    @pytest.mark.promise("D14")
    async def test_the_loop_goes_on_during_a_put(self, tmp_path):
        """
        A put that blocks for 0.3 s stops no other task; nor does a sync function of a turn.
        """
        ticks = [0]

        async def tick():
            while True:
                ticks[0] += 1
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            async with session("t", Sleepy(tmp_path / "journal")) as chat:
                await chat.aturn(partial(time.sleep, 0.1))
            group.cancel_scope.cancel()

        assert ticks[0] > 10

"""`amap_threads` and `map_threads`: one durable thread per input, run again until all are done."""

import sys
from collections import Counter

import anyio
import anyio.lowlevel
import pytest

from actorgraph import (
    Codec,
    Command,
    InMemorySaver,
    InvalidConfigError,
    SaverRequiredError,
    SqliteSaver,
    entrypoint,
    interrupt,
)
from actorgraph.errors import BatchInputError, MissingExtraError, RunFailedError, TwoReadersError
from actorgraph.values.commands import RunControl
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.graphs import ab, at, in_a_row


def inputs(text):
    return [{"foo": letter} for letter in text]


def foo(given):
    return given["foo"]


class Worker:
    """A graph of two nodes, "first" and "second"; letters in `bad` fail in the second one."""

    def __init__(self, bad=""):
        self.bad = bad
        self.ran = Counter()

    async def first(self, state):
        self.ran[f"first {state['foo']}"] += 1
        return {"bar": [state["foo"]]}

    async def second(self, state):
        self.ran[f"second {state['foo']}"] += 1
        if state["foo"] in self.bad:
            raise ValueError(f"bad {state['foo']}")
        if state["foo"] == "?":
            return {"bar": [interrupt("which?")]}
        return {"bar": [state["foo"] * 2]}

    def graph(self, saver):
        return in_a_row({"first": self.first, "second": self.second}, checkpointer=saver)


async def collected(batch):
    """The results of a batch, by key."""
    with anyio.fail_after(PATIENCE_S):
        return {result.key: result async for result in batch}


class TestResults:
    @pytest.mark.every_saver
    async def test_a_second_pass_runs_only_what_is_left(self, saver):
        """
        Done threads give their stored output, failed ones their stored error; none runs again.
        """
        worker = Worker(bad="c")
        graph = worker.graph(saver)
        first = await collected(graph.amap_threads(inputs("abc?"), key=foo, name="n"))
        ran = dict(worker.ran)
        again = await collected(graph.amap_threads(inputs("abc?"), key=foo, name="n"))

        assert [first[key].status for key in "abc?"] == ["done", "done", "failed", "waiting"]
        assert {one.how for one in first.values()} == {"started"}
        assert isinstance(first["c"].error, ValueError)
        assert first["a"].output == again["a"].output == {"foo": "a", "bar": ["a", "aa"]}
        assert (first["a"].thread_id, first["a"].index, first["a"].input) == (
            "n:a",
            0,
            {"foo": "a"},
        )
        assert [again[key].status for key in "abc?"] == ["done", "done", "failed", "waiting"]
        assert {one.how for one in again.values()} == {"skipped"}
        assert isinstance(again["c"].error, RunFailedError)
        assert "bad c" in str(again["c"].error)
        assert [question.value for question in again["?"].questions] == ["which?"]
        assert again["?"].output == {"foo": "?", "bar": ["?"]}
        assert worker.ran == ran

    async def test_failed_threads_are_retried_when_asked(self, saver):
        """
        failed="retry" runs the failed task again, and not the one before it.
        """
        worker = Worker(bad="b")
        graph = worker.graph(saver)
        await collected(graph.amap_threads(inputs("ab"), key=foo))
        worker.bad = ""
        found = await collected(graph.amap_threads(inputs("ab"), key=foo, failed="retry"))

        assert (found["b"].status, found["b"].how) == ("done", "resumed")
        assert (worker.ran["first b"], worker.ran["second b"], worker.ran["second a"]) == (1, 2, 1)

    async def test_questions_are_answered_by_a_function(self, saver):
        """
        The function gets key and question; None leaves the thread waiting. A person's answer by
        `ainvoke` counts as well.
        """
        graph = Worker().graph(saver)
        asked = []

        async def answer(key, question):
            asked.append((key, question.value))
            return None if len(asked) == 1 else "this"

        waiting = await collected(graph.amap_threads(inputs("?"), key=foo, answer=answer))
        done = await collected(graph.amap_threads(inputs("?"), key=foo, answer=answer))
        await collected(graph.amap_threads(inputs("?"), key=foo, name="by hand"))
        await graph.ainvoke(Command(resume="that"), at("by hand:?"))
        by_hand = await collected(graph.amap_threads(inputs("?"), key=foo, name="by hand"))

        assert asked == [("?", "which?")] * 2
        assert waiting["?"].status == "waiting"
        assert (done["?"].how, done["?"].output["bar"]) == ("resumed", ["?", "this"])
        assert (by_hand["?"].status, by_hand["?"].output["bar"]) == ("done", ["?", "that"])

    async def test_another_input_is_refused(self, saver):
        """
        A thread that began with another input, or by something else, is left as it is.
        """
        worker = Worker()
        graph = worker.graph(saver)
        await collected(graph.amap_threads(inputs("a"), name="n"))
        await graph.ainvoke({"foo": "x"}, at("n:1"))
        found = await collected(graph.amap_threads(inputs("bx"), name="n"))
        kept = await collected(graph.amap_threads(inputs("bx"), name="n", changed="keep"))

        assert isinstance(found["0"].error, BatchInputError)
        assert "with another input" in str(found["0"].error)
        assert "by something else" in str(found["1"].error)
        assert kept["0"].output["bar"] == ["a", "aa"]
        assert (worker.ran["first b"], worker.ran["first x"]) == (0, 1)

    async def test_an_encrypted_saver_compares_inputs_too(self, tmp_path):
        """
        The digest is stored encrypted, so that the input can't be guessed from it.
        """
        codec = Codec(keys={"k": b"1" * 32})
        async with SqliteSaver(tmp_path / "runs.db", codec=codec) as saver:
            graph = Worker().graph(saver)
            await collected(graph.amap_threads(inputs("a"), name="n"))
            same = await collected(graph.amap_threads(inputs("a"), name="n"))
            other = await collected(graph.amap_threads(inputs("b"), name="n"))
            stored = (await graph.aget_state("n:0")).metadata["batch_input"]

        assert (same["0"].how, same["0"].status) == ("skipped", "done")
        assert isinstance(other["0"].error, BatchInputError)
        assert len(stored) > 64

    async def test_results_may_keep_the_order_of_the_inputs(self, saver):
        """
        ordered=True holds a result back until those before it are given.
        """
        slow = Turnstile()

        async def node(state):
            if state["foo"] == "a":
                await slow(state)
            else:
                slow.out.set()

        graph = in_a_row({"node": node}, checkpointer=saver)
        found = [r.key async for r in graph.amap_threads(inputs("ab"), key=foo, ordered=True)]

        assert found == ["a", "b"]

    async def test_workflows_give_what_they_return(self, saver):
        """
        The output of an entrypoint is its return value, also when it is read from the store.
        """

        @entrypoint(checkpointer=saver)
        async def double(number: int) -> int:
            return number * 2

        first = await collected(double.amap_threads([3, 4]))
        again = await collected(double.amap_threads([3, 4]))

        assert [first[key].output for key in "01"] == [6, 8]
        assert [again[key].output for key in "01"] == [6, 8]
        assert {one.how for one in again.values()} == {"skipped"}


class TestReading:
    async def test_inputs_are_read_as_threads_end(self):
        """
        No more inputs are read ahead of a slow reader than `concurrency` and `ahead` allow.
        """
        read = []

        def numbers():
            for number in range(100):
                read.append(number)
                yield {"foo": str(number)}

        graph = Worker().graph(InMemorySaver())
        async with graph.amap_threads(numbers(), concurrency=2, ahead=3) as batch:
            for taken in range(1, 20):
                await anext(batch)
                assert len(read) <= taken + 2 + 3 + 1
        assert len(read) < 30

    @pytest.mark.parametrize("ordered", [False, True])
    async def test_no_thread_begins_while_large_results_wait(self, ordered):
        """
        Results above `ahead_bytes` hold the batch back until its reader takes them; all come.
        """
        begun = []

        def work(state):
            begun.append(state["foo"])
            return {"bar": ["x" * 1000]}

        graph = in_a_row({"work": work}, checkpointer=InMemorySaver())
        given = [{"foo": f"{n:02}"} for n in range(40)]
        bounds = {"concurrency": 2, "ahead": 30, "ahead_bytes": 5000}
        got, ahead = [], []
        async with graph.amap_threads(given, ordered=ordered, **bounds) as batch:
            async for result in batch:
                got.append(result.input["foo"])
                await settled(50)
                ahead.append(len(begun) - len(got))

        assert sorted(got) == [one["foo"] for one in given]
        assert max(ahead) <= 5 + 2 + 1

    async def test_a_key_function_cannot_end_the_batch(self):
        """
        A StopAsyncIteration of the key's function is an error, not the last of the inputs.
        """

        def key(_):
            raise StopAsyncIteration

        async def letters():
            yield {"foo": "a"}

        with pytest.raises(RuntimeError, match="key raised StopAsyncIteration for input 0"):
            await collected(Worker().graph(InMemorySaver()).amap_threads(letters(), key=key))

    async def test_no_more_threads_run_than_allowed(self):
        """
        `concurrency` bounds the threads that run at once.
        """
        now, most = 0, 0

        async def node(state):
            nonlocal now, most
            now += 1
            most = max(most, now)
            await settled(20)
            now -= 1

        graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
        summary = await graph.amap_threads(inputs("abcdefgh"), concurrency=3).summary()

        assert most == 3
        assert (summary.counts.done, summary.counts.total, summary.is_done) == (8, 8, True)

    async def test_inputs_may_be_an_async_iterable(self):
        """
        Its length is known at the end.
        """

        async def numbers():
            for letter in "abc":
                await anyio.lowlevel.checkpoint()
                yield {"foo": letter}

        counts = []
        batch = Worker().graph(InMemorySaver()).amap_threads(numbers(), progress=counts.append)
        found = await collected(batch)

        assert sorted(found) == ["0", "1", "2"]
        assert (batch.counts.total, batch.counts.done) == (3, 3)
        assert counts[-1].done == 3
        assert counts[0].running == 1

    async def test_chunks_reach_a_function(self):
        """
        `on_chunk` gets key, mode and chunk of each run.
        """
        seen = []
        graph = Worker().graph(InMemorySaver())
        await collected(
            graph.amap_threads(
                inputs("a"),
                key=foo,
                on_chunk=lambda *given: seen.append(given),
                stream_mode=["updates"],
            )
        )

        assert seen == [
            ("a", "updates", {"first": {"bar": ["a"]}}),
            ("a", "updates", {"second": {"bar": ["aa"]}}),
        ]


class TestEnds:
    async def test_a_batch_that_is_left_goes_on(self, saver):
        """
        Leaving it cancels the runs; the next pass goes on with their stored work.
        """
        worker, slow = Worker(), Turnstile()

        async def waits(state):
            if state["foo"] == "b":
                await slow(state)
            return await worker.second(state)

        graph = in_a_row({"first": worker.first, "second": waits}, checkpointer=saver)
        with anyio.fail_after(PATIENCE_S):
            async with graph.amap_threads(inputs("ab"), key=foo) as batch:
                assert (await anext(batch)).key == "a"
                await slow.entered.wait()
        assert slow.closed == 1
        slow.out.set()
        found = await collected(graph.amap_threads(inputs("ab"), key=foo))

        assert (found["a"].how, found["b"].how) == ("skipped", "resumed")
        assert (worker.ran["first b"], worker.ran["second b"]) == (1, 1)

    async def test_a_cancelled_reader_ends_the_batch(self):
        """
        The cancellation is raised when the runs have ended.
        """
        slow = Turnstile()
        graph = in_a_row({"slow": slow}, checkpointer=InMemorySaver())
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(graph.amap_threads(inputs("ab")).summary)
                await slow.entered.wait()
                group.cancel_scope.cancel()

        assert slow.closed == slow.calls > 0

    async def test_the_first_failure_may_end_it(self):
        """
        errors="raise" raises the thread's error, which names the thread and says how to go on.
        """
        graph = Worker(bad="b").graph(InMemorySaver())
        with pytest.raises(ValueError, match="bad b") as caught:
            await collected(graph.amap_threads(inputs("ab"), key=foo, name="n", errors="raise"))

        notes = "\n".join(caught.value.__notes__)
        assert "thread 'n:b'" in notes
        assert "run the same batch again to go on" in notes

    async def test_a_drain_ends_it(self):
        """
        After `request_drain` the active runs end between two steps, and so does the batch.
        """
        control = RunControl()
        worker = Worker()

        async def first(state):
            control.request_drain("deploy")
            return await worker.first(state)

        saver = InMemorySaver()
        graph = in_a_row({"first": first, "second": worker.second}, checkpointer=saver)
        with pytest.raises(Exception, match="deploy") as caught:
            await collected(graph.amap_threads(inputs("ab"), control=control, concurrency=1))
        found = await collected(graph.amap_threads(inputs("ab")))

        assert type(caught.value).__name__ == "GraphDrained"
        assert [found[key].how for key in "01"] == ["resumed", "started"]
        assert worker.ran["first a"] == 1

    async def test_an_error_of_the_inputs_ends_it(self):
        """
        The batch raises what the program's own iterable raises.
        """

        def numbers():
            yield {"foo": "a"}
            raise LookupError("no more")

        with pytest.raises(LookupError, match="no more"):
            await collected(Worker().graph(InMemorySaver()).amap_threads(numbers()))

    async def test_only_one_task_reads_it(self):
        """
        A second reader is refused.
        """
        slow = Turnstile()
        graph = in_a_row({"slow": slow}, checkpointer=InMemorySaver())
        async with graph.amap_threads(inputs("a")) as batch, anyio.create_task_group() as group:
            group.start_soon(anext, batch)
            await slow.entered.wait()
            with pytest.raises(TwoReadersError):
                await anext(batch)
            slow.out.set()


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"concurrency": 0}, "concurrency must be"),
            ({"ahead": -1}, "ahead must be"),
            ({"ahead_bytes": 0}, "ahead_bytes must be"),
            ({"failed": "again"}, "no failed='again'"),
            ({"errors": "ignore"}, "no errors="),
            ({"concurency": 3}, "concurrency"),
            ({"key": 3}, "key must be a function"),
            ({"progress": "yes"}, "progress must be"),
            ({"config": at("t")}, "'name:key'"),
            ({"interrupt_before": ["a"]}, "breakpoint"),
            ({"replay": "recorded"}, "no replay"),
            ({"key": lambda one: 1.5}, "text or an integer"),
            ({"key": lambda one: "a\0b"}, "of input 0 of batch 'LangGraph' makes no thread id"),
            ({"key": lambda one: "k" * 300}, "of input 0 of batch 'LangGraph' makes no thread id"),
            ({"key": lambda one: "same"}, "'same' of batch 'LangGraph' is used twice"),
        ],
        ids=lambda part: next(iter(part)) if isinstance(part, dict) else part,
    )
    async def test_bad_arguments_are_refused_at_the_call(self, options, text):
        """
        Before anything runs, by name, and with what to do.
        """
        with pytest.raises(InvalidConfigError, match=text):
            ab(InMemorySaver()).amap_threads(inputs("ab"), **options)

    async def test_a_graph_with_breakpoints_is_refused(self):
        """
        Running it again would pass the breakpoint.
        """
        with pytest.raises(InvalidConfigError, match="breakpoint"):
            ab(InMemorySaver(), interrupt_before=["b"]).amap_threads(inputs("a"))

    async def test_a_graph_without_a_saver_is_refused(self):
        """
        Nothing could be resumed.
        """
        with pytest.raises(SaverRequiredError):
            ab().amap_threads(inputs("a"))

    @pytest.mark.parametrize("given", ["abc", {"foo": "a"}, 3])
    async def test_one_input_in_place_of_many_is_refused(self, given):
        """
        A text or a dict is one input, and would be read letter by letter.
        """
        with pytest.raises(InvalidConfigError, match="iterable of inputs"):
            ab(InMemorySaver()).amap_threads(given)

    @pytest.mark.parametrize(
        ("bad", "text"),
        [(None, "is None"), (Command(resume=1), "Command"), ({"foo": "a"}, "twice")],
    )
    async def test_a_bad_input_ends_the_batch(self, bad, text):
        """
        An input that begins nothing, or a key that was there before, is found when it is read.
        """
        given = (one for one in ({"foo": "a"}, bad))
        key = (lambda one: one["foo"]) if isinstance(bad, dict) else None
        with pytest.raises(InvalidConfigError, match=text):
            await collected(ab(InMemorySaver()).amap_threads(given, key=key))

    async def test_it_is_refused_in_a_node(self):
        """
        A run in a node is part of its thread.
        """

        async def node(state):
            ab(InMemorySaver()).amap_threads(inputs("a"))

        with pytest.raises(InvalidConfigError, match="in a node"):
            await in_a_row({"node": node}).ainvoke({"foo": "a"})


class TestProgress:
    async def test_a_bar_is_drawn(self, capsys):
        """
        progress=True ends with one line of figures on standard error.
        """
        graph = Worker(bad="b").graph(InMemorySaver())
        await graph.amap_threads(inputs("ab?"), name="letters", progress=True).summary()
        shown = capsys.readouterr().err

        for part in ("letters", "1/3 done", "1 failed", "1 waiting"):
            assert part in shown

    async def test_without_rich_the_advice_names_the_extra(self, monkeypatch):
        """
        The bar needs a package that the library does not.
        """
        monkeypatch.setitem(sys.modules, "rich.console", None)
        monkeypatch.delitem(sys.modules, "actorgraph.api.batches.progress_bar", raising=False)
        batch = Worker().graph(InMemorySaver()).amap_threads(inputs("a"), progress=True)

        with pytest.raises(MissingExtraError, match=r"actorgraph\[progress\]"):
            await anext(batch)

    async def test_an_error_of_the_function_ends_the_batch(self):
        """
        As any error of the program's own code.
        """

        def watch(counts):
            raise RuntimeError("watch")

        batch = Worker().graph(InMemorySaver()).amap_threads(inputs("a"), progress=watch)
        with pytest.raises(RuntimeError, match="watch"):
            await collected(batch)


class TestBlocking:
    def test_the_blocking_twin_gives_the_same(self, tmp_path):
        """
        Results come one by one; a second pass skips; a batch that is closed early goes on.
        """
        graph = in_a_row(
            {"a": lambda state: {"bar": [state["foo"]]}},
            checkpointer=SqliteSaver(tmp_path / "runs.db"),
        )
        with graph.map_threads(inputs("abc"), key=foo, concurrency=1, ahead=0) as batch:
            first = next(batch)
        rest = {result.key: result for result in graph.map_threads(inputs("abc"), key=foo)}
        summary = graph.map_threads(inputs("abc"), key=foo).summary()

        assert (first.key, first.output["bar"]) == ("a", ["a"])
        assert rest["a"].how == "skipped"
        assert {one.status for one in rest.values()} == {"done"}
        assert (summary.counts.skipped, summary.failures) == (3, {})

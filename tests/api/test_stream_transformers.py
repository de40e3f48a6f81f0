"""StreamTransformer and StreamChannel: projections that a program makes of a run's events."""

from typing import Any

import anyio
import pytest

from actorgraph import InvalidConfigError, StreamChannel, StreamTransformer, get_stream_writer
from tests.api.test_events import items, outer
from tests.support.graphs import ab, in_a_row, writer


class Counter(StreamTransformer):
    """Counts supersteps, in a channel of its own."""

    required_stream_modes = ("values",)

    def __init__(self, scope=(), name: str | None = None) -> None:
        super().__init__(scope)
        self.counts: StreamChannel[int] = StreamChannel(name)
        self.seen = 0
        self.ends: list[Any] = []

    def init(self) -> dict[str, Any]:
        return {"counts": self.counts, "counter": self}

    def process(self, event) -> bool:
        if event["method"] == "values" and tuple(event["params"]["namespace"]) == self.scope:
            self.seen += 1
            self.counts.push(self.seen)
        return True

    def finalize(self) -> None:
        self.ends.append("finalized")

    def fail(self, err: BaseException) -> None:
        self.ends.append(err)


class Shout(StreamTransformer):
    """Changes custom events before any other transformer sees them."""

    before_builtins = True
    required_stream_modes = ("custom",)

    def init(self) -> dict[str, Any]:
        return {}

    async def aprocess(self, event) -> bool:
        await anyio.lowlevel.checkpoint()
        if event["method"] == "custom":
            event["params"]["data"] = event["params"]["data"].upper()
        return True


class Silence(StreamTransformer):
    """Keeps custom events out of the run's log."""

    required_stream_modes = ("custom",)

    def init(self) -> dict[str, Any]:
        return {}

    def process(self, event) -> bool:
        return event["method"] != "custom"


async def talk(state):
    """A node that writes a custom chunk."""
    get_stream_writer()("hello")


class TestTransformers:
    @pytest.mark.langgraph("F-D13")
    async def test_its_projections_are_extensions(self):
        """
        The result of `init` is in `run.extensions`, not an attribute.
        """
        async with ab().astream_events({"foo": "x"}, version="v3", transformers=[Counter]) as run:
            assert await items(run.extensions["counts"]) == [1, 2, 3]
            with pytest.raises(AttributeError, match="counts"):
                _ = run.counts

    @pytest.mark.langgraph("F-D13")
    async def test_a_native_one_makes_attributes(self):
        """
        A transformer marked `_native` adds attributes to the run.
        """

        class Native(Counter):
            _native = True

        async with ab().astream_events({"foo": "x"}, version="v3", transformers=[Native]) as run:
            assert await items(run.counts) == [1, 2, 3]

    @pytest.mark.langgraph("F-D13")
    async def test_compile_gives_them_to_every_run(self):
        """
        `compile(transformers=)` adds to each event stream of the graph.
        """
        graph = in_a_row({"a": writer("a")}, transformers=[Counter]).with_durability("sync")
        async with graph.astream_events({"foo": "x"}, version="v3") as run:
            assert await items(run.extensions["counts"]) == [1, 2]

    @pytest.mark.langgraph("F-D13")
    async def test_it_learns_of_the_end(self):
        """
        `finalize` after a run that ended, `fail` with the error of one that didn't.
        """

        async def bad(state):
            raise ValueError("boom")

        good = ab().astream_events({}, version="v3", transformers=[Counter])
        await good.output()
        failed = in_a_row({"bad": bad}).astream_events({}, version="v3", transformers=[Counter])
        with pytest.raises(ValueError, match="boom") as raised:
            await failed.output()

        assert good.extensions["counter"].ends == ["finalized"]
        assert failed.extensions["counter"].ends == [raised.value]

    @pytest.mark.langgraph("F-D13")
    async def test_one_before_the_built_ins_changes_what_they_see(self):
        """
        `before_builtins` comes first, and what follows waits for its `aprocess`.
        """
        from actorgraph import CustomTransformer

        graph = in_a_row({"talk": talk})
        async with graph.astream_events(
            {}, version="v3", transformers=[CustomTransformer, Shout]
        ) as run:
            assert await items(run.custom) == ["HELLO"]

    @pytest.mark.langgraph("F-D13")
    async def test_an_event_can_be_kept_out_of_the_log(self):
        """
        A False keeps an event from readers of the run itself.
        """
        graph = in_a_row({"talk": talk})
        async with graph.astream_events({"foo": "x"}, version="v3", transformers=[Silence]) as run:
            assert {event["method"] for event in await items(run)} == {"values"}

    @pytest.mark.langgraph("F-D13", "F-D15")
    async def test_each_level_has_one_of_its_own(self):
        """
        A transformer is made for the run and for each graph inside.
        """
        scopes = []

        def factory(scope):
            scopes.append([part.split(":")[0] for part in scope])
            return Counter(scope)

        async with outer(writer("x")).astream_events(
            {}, version="v3", transformers=[factory]
        ) as run:
            async for handle in run.subgraphs:
                assert await items(handle.extensions["counts"])

        assert [] in scopes
        assert ["sub"] in scopes

    async def test_an_error_in_one_ends_the_run(self):
        """
        A transformer that raises fails the run for its readers; nothing hangs.
        """

        class Broken(Silence):
            def process(self, event) -> bool:
                raise ValueError("broken")

        run = in_a_row({"talk": talk}).astream_events({}, version="v3", transformers=[Broken])
        with anyio.fail_after(5), pytest.raises(ValueError, match="broken"):
            await run.output()

    async def test_two_projections_of_one_name_are_refused(self):
        """
        A name belongs to one transformer.
        """
        with pytest.raises(InvalidConfigError, match="'counts'"):
            ab().astream_events({}, version="v3", transformers=[Counter, Counter])

    @pytest.mark.langgraph("F-D13")
    async def test_one_without_process_says_so(self):
        """
        A transformer must see events one way or the other.
        """

        class Blind(StreamTransformer):
            def init(self) -> dict[str, Any]:
                return {}

        run = ab().astream_events({"foo": "x"}, version="v3", transformers=[Blind])
        with pytest.raises(NotImplementedError, match="Blind"):
            await run.output()


class TestScheduled:
    @pytest.mark.langgraph("F-D13")
    async def test_the_end_waits_for_scheduled_work(self):
        """
        Work that a transformer schedules has ended before the run's end is delivered.
        """
        done = []

        class Slow(Silence):
            def process(self, event) -> bool:
                async def work() -> None:
                    await anyio.lowlevel.checkpoint()
                    done.append(event["method"])

                if event["method"] == "custom":
                    self.schedule(work())
                return True

            async def afinalize(self) -> None:
                done.append("finalized")

        run = in_a_row({"talk": talk}).astream_events({}, version="v3", transformers=[Slow])
        await run.output()

        assert done == ["custom", "finalized"]

    @pytest.mark.langgraph("F-D13")
    async def test_its_error_may_be_the_runs(self):
        """
        `on_error="raise"` fails the run's end; by default the error is logged.
        """

        def scheduling(on_error):
            class Failing(Silence):
                def process(self, event) -> bool:
                    async def work() -> None:
                        raise ValueError("late")

                    if event["method"] == "custom":
                        self.schedule(work(), on_error=on_error)
                    return True

            return Failing

        graph = in_a_row({"talk": talk})
        await graph.astream_events({}, version="v3", transformers=[scheduling("log")]).output()
        run = graph.astream_events({}, version="v3", transformers=[scheduling("raise")])
        with pytest.raises(ValueError, match="late"):
            await run.output()

    async def test_it_needs_a_run(self):
        """
        Outside of a run there is nothing that would wait for it.
        """

        async def work() -> None:
            """Never runs."""

        with pytest.raises(InvalidConfigError, match="process"):
            Silence().schedule(work())


class TestChannels:
    @pytest.mark.langgraph("F-D14")
    async def test_it_has_one_reader(self):
        """
        A second reader is refused; `atee` makes several of one.
        """
        async with ab().astream_events({"foo": "x"}, version="v3") as run:
            aiter(run.values)
            with pytest.raises(InvalidConfigError, match="atee"):
                aiter(run.values)
        async with ab().astream_events({"foo": "x"}, version="v3") as run:
            first, second = run.values.atee(2)

            assert await items(first) == await items(second)

    @pytest.mark.langgraph("F-D14")
    async def test_nothing_is_kept_before_a_reader_subscribes(self):
        """
        A reader that comes late gets what comes from then on.
        """
        async with ab().astream_events({"foo": "x"}, version="v3", transformers=[Counter]) as run:
            async for _ in run.values:
                break

            assert await items(run.extensions["counts"]) == [2, 3]

    @pytest.mark.langgraph("F-D14")
    async def test_a_bounded_one_keeps_the_newest(self):
        """
        `maxlen` drops the oldest items that wait.
        """

        class Bounded(Counter):
            def __init__(self, scope=()) -> None:
                super().__init__(scope)
                self.counts = StreamChannel(maxlen=1)

        async with ab().astream_events({"foo": "x"}, version="v3", transformers=[Bounded]) as run:
            counts = aiter(run.extensions["counts"])
            await run.output()

            assert await items(counts) == [3]

    @pytest.mark.langgraph("F-D14")
    async def test_a_named_one_is_in_the_log(self):
        """
        Items of a channel with a name are events `custom:<name>`.
        """

        def factory(scope):
            return Counter(scope, "count")

        async with ab().astream_events({"foo": "x"}, version="v3", transformers=[factory]) as run:
            told = [(e["method"], e["params"]["data"]) for e in await items(run)]

        assert [data for method, data in told if method == "custom:count"] == [1, 2, 3]

    @pytest.mark.langgraph("F-D14")
    async def test_an_error_comes_after_the_items(self):
        """
        A reader gets what waits, then the error.
        """

        async def bad(state):
            raise ValueError("boom")

        run = in_a_row({"a": writer("a"), "bad": bad}).astream_events({"foo": "x"}, version="v3")
        values, again = run.values.atee(2)
        for reader in (values, again):
            assert (await anext(reader))["foo"] == "x"
            assert (await anext(reader))["foo"] == "a"
            with pytest.raises(ValueError, match="boom"):
                await anext(reader)

    @pytest.mark.langgraph("F-D14")
    def test_tee_in_blocking_code(self):
        """
        `tee` is the blocking form.
        """
        with ab().stream_events({"foo": "x"}) as run:
            first, second = run.values.tee(2)

            assert len(list(first)) == len(list(second)) == 3

    @pytest.mark.parametrize(
        ("call", "word"),
        [
            (lambda: StreamChannel(maxlen=0), "maxlen"),
            (lambda: aiter(StreamChannel()), "init"),
        ],
    )
    def test_unusable_channels_are_refused(self, call, word):
        """
        A channel without room, and one that belongs to no run.
        """
        with pytest.raises(InvalidConfigError, match=word):
            call()

    async def test_a_closed_one_takes_nothing(self):
        """
        Pushing after the end is an error of the transformer's.
        """
        async with ab().astream_events({}, version="v3", transformers=[Counter]) as run:
            reader = aiter(run.extensions["counts"])
            await run.output()
            assert await items(reader)

            with pytest.raises(InvalidConfigError, match="closed"):
                run.extensions["counts"].push(1)

"""Chunks compared whole: every key of every mode, in the order in which readers get them."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import LastValueAfterFinish, UntrackedValue
from actorgraph.superstep import chunks
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Command
from actorgraph.values.constants import START
from actorgraph.values.ids import GREGORIAN_OFFSET, as_text, uuid6
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import TaskFailed, TaskResult, TaskSucceeded
from tests.superstep.programs import Program
from tests.superstep.script import Script, Store, chain, graph, idle
from tests.superstep.threads import ASYNC, EXIT, PAIR, SYNC, thread


class State(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]


ALL = frozenset({"values", "updates", "tasks", "checkpoints", "debug"})
EDGES: list[Any] = [(START, "a"), (START, "b")]
TWO = graph(State, dict.fromkeys("ab", idle), EDGES)


def config(checkpoint: bytes | None, namespace: str = "") -> dict[str, Any] | None:
    """The address of a checkpoint of the thread."""
    if checkpoint is None:
        return None
    place = {"thread_id": "t", "checkpoint_ns": namespace, "checkpoint_id": as_text(checkpoint)}
    return {"configurable": place}


def debug(step: int, kind: str, checkpoint: bytes, payload: Any) -> tuple[Any, str, Any]:
    """A payload as readers of `debug` get it."""
    stamp = chunks.timestamp(checkpoint)
    return (), "debug", {"step": step, "timestamp": stamp, "type": kind, "payload": payload}


def points_in(*ids: bytes) -> Any:
    """A function that makes the chunk of a run's checkpoint, by its step."""

    def point(step: int, source: str, values: Any, following: dict[str, str]) -> Any:
        return {
            "config": config(ids[step + 1]),
            "parent_config": config(ids[step] if step > -1 else None),
            "values": values,
            "metadata": {"source": source, "step": step, "parents": {}},
            "next": list(following),
            "tasks": [
                {"id": i, "name": name, "interrupts": (), "state": None}
                for name, i in following.items()
            ],
        }

    return point


def started(task: Any) -> Any:
    """The chunk of the start of a task, which sees the input."""
    return {
        "id": task.id,
        "name": task.name,
        "input": {"text": "x", "log": []},
        "triggers": (f"branch:to:{task.name}",),
        "metadata": {"user": 1, "tags": ["t"]},
    }


def ended(task: Any, result: Any) -> Any:
    """The chunk of the result of a task."""
    shown = {"id": task.id, "name": task.name, "error": None, "interrupts": []}
    return {**shown, "result": result}


class TestARun:
    def test_with_readers_of_all_modes(self):
        """
        The input's checkpoint, the state after START, then starts, results and updates as they
        come, the state, and the last checkpoint; debug wraps tasks and checkpoints.
        """
        run = Script(TWO, modes=ALL, metadata={"user": 1}, tags=("t",))
        run.begin({"text": "x"})
        run.saved()
        a, b = run.task("a"), run.task("b")
        second = run.state.checkpoint
        run.finish("b", log=["b"])
        run.finish("a", text="y")
        run.saved()
        first = next(iter(run.store.points))
        third = run.state.checkpoint
        start = next(e.task for e in run.store.ledger if e.base == first)

        point = points_in(first, second, third)
        entered = point(-1, "input", {"log": []}, {START: start})
        begun = point(0, "loop", {"text": "x", "log": []}, {"a": a.id, "b": b.id})
        over = point(1, "loop", {"text": "y", "log": ["b"]}, {})
        assert run.chunks == [
            ((), "checkpoints", entered),
            debug(-1, "checkpoint", first, entered),
            ((), "values", {"text": "x", "log": []}),
            ((), "checkpoints", begun),
            debug(0, "checkpoint", second, begun),
            ((), "tasks", started(a)),
            debug(1, "task", second, started(a)),
            ((), "tasks", started(b)),
            debug(1, "task", second, started(b)),
            ((), "updates", {"b": {"log": ["b"]}}),
            ((), "tasks", ended(b, {"log": ["b"]})),
            debug(1, "task_result", second, ended(b, {"log": ["b"]})),
            ((), "updates", {"a": {"text": "y"}}),
            ((), "tasks", ended(a, {"text": "y"})),
            debug(1, "task_result", third, ended(a, {"text": "y"})),
            ((), "values", {"text": "y", "log": ["b"]}),
            ((), "checkpoints", over),
            debug(1, "checkpoint", third, over),
        ]

    def test_that_goes_on_shows_what_was_done_before(self):
        """
        The state, the checkpoint with its tasks' results, and the updates marked as cached.
        """
        store = thread("b", finished=("a",))
        run = Script(PAIR, store=store, modes=ALL)
        run.begin(Command(resume="yes"))
        run.saved()
        modes = [mode for _, mode, _ in run.chunks]
        (point,) = run.streamed("checkpoints")

        assert modes == ["values", "checkpoints", "debug", "updates", "tasks", "debug"]
        assert run.streamed("updates") == [{"a": {"log": ["a"]}, "__metadata__": {"cached": True}}]
        assert [sorted(task) for task in point["tasks"]] == [
            ["id", "interrupts", "name", "result", "state"],
            ["id", "interrupts", "name", "state"],
        ]
        assert point["tasks"][0]["result"] == {"log": ["a"]}
        asked = point["tasks"][1]["interrupts"]
        keys = ["id", "response_schema", "value"]
        assert [(i["value"], sorted(i)) for i in asked] == [("b?", keys)]

    @pytest.mark.parametrize(
        ("settings", "updates"),
        [
            ({"output_keys": ("log",)}, [{"a": {"log": ["a"]}}]),
            ({"output_keys": ("text",)}, [{"a": None}]),
            ({"output_keys": ("log",), "bare": True}, [{"a": ["a"]}]),
        ],
    )
    def test_that_goes_on_shows_the_keys_that_were_asked_for(self, settings, updates):
        """
        The updates of finished tasks have the output keys only, bare where asked for.
        """
        store = thread("b", finished=("a",))
        run = Script(PAIR, store=store, modes=frozenset({"updates"}), **settings)
        run.begin(None)
        run.saved()

        cached = {"__metadata__": {"cached": True}}
        assert run.streamed("updates") == [{**update, **cached} for update in updates]

    def test_a_hidden_task_of_an_earlier_run_is_not_shown(self):
        """
        Hidden nodes have no chunks when a run goes on either.
        """
        plan = graph(State, dict.fromkeys("abc", idle), [*EDGES, (["a", "b"], "c")])
        object.__setattr__(plan.nodes["a"], "hidden", True)
        run = Script(plan, store=thread("b", finished=("a",)), modes=frozenset({"updates"}))
        run.begin(None)
        run.saved()

        assert run.streamed("updates") == []

    def test_a_cached_result_is_marked(self):
        """
        An update from a cache has a mark beside the node's name.
        """
        run = Script(chain(State, "a"), saver=False, modes=frozenset({"updates"}))
        run.begin({"text": "x"})
        task = run.running.pop(run.task("a").id)
        run.event(TaskSucceeded(TaskResult(task.id, (("log", ["a"]),), cached=True)))

        assert run.streamed("updates") == [{"a": {"log": ["a"]}, "__metadata__": {"cached": True}}]

    def test_the_updates_of_a_bare_graph_are_values(self):
        """
        In a graph over one value an update is the value; several are a list.
        """
        plan = graph(Annotated[list, operator.add], dict.fromkeys("ab", idle), EDGES)
        run = Script(plan, saver=False, modes=frozenset({"updates", "values"}))
        run.begin(["x"])
        run.finish("a", ["a"])
        task = run.running.pop(run.task("b").id)
        writes = (("__root__", ["b"]), ("__root__", ["c"]))
        run.event(TaskSucceeded(TaskResult(task.id, writes)))

        assert run.streamed("updates") == [{"a": ["a"]}, {"b": [["b"], ["c"]]}]
        assert run.streamed("values") == [["x"], ["x", "a", "b", "c"]]


class TestAddresses:
    def test_of_a_subgraph_lead_to_the_checkpoints_above(self):
        """
        The chunk of a subgraph's checkpoint is under its namespace; its configs have the map.
        """
        run = Script(chain(State, "a"), modes=ALL)
        run.state.nested = Nested({"": "1"}, {})
        run.state.namespace = "n:1|m:2"
        run.begin({"text": "x"})
        run.saved()
        head = as_text(run.state.checkpoint)
        place = {"thread_id": "t", "checkpoint_ns": "n:1|m:2", "checkpoint_id": head}

        assert {namespace for namespace, _, _ in run.chunks} == {("n:1", "m:2")}
        _, point = run.streamed("checkpoints")
        assert point["config"] == {
            "configurable": {**place, "checkpoint_map": {"": "1", "n:1|m:2": head}}
        }
        assert point["metadata"]["parents"] == {"": "1"}

    def test_of_a_task_that_runs_a_subgraph(self):
        """
        The chunk of a checkpoint addresses the states of the subgraphs that follow.
        """
        plan = graph(State, dict.fromkeys("ab", idle), EDGES)
        object.__setattr__(plan, "subgraphs", frozenset({"b"}))
        run = Script(plan, modes=frozenset({"checkpoints"}))
        run.begin({"text": "x"})
        run.saved()
        a, b = run.streamed("checkpoints")[-1]["tasks"]

        assert a["state"] is None
        assert b["state"] == {"configurable": {"thread_id": "t", "checkpoint_ns": f"b:{b['id']}"}}

    def test_an_exit_run_hangs_below_the_last_stored_checkpoint(self):
        """
        The parent in its chunks is the checkpoint that the thread has.
        """
        store = thread("b")
        head = store.head
        run = Script(PAIR, EXIT, store=store, modes=frozenset({"checkpoints"}))
        run.begin({"text": "new"})
        run.saved()

        assert [c["parent_config"] for c in run.streamed("checkpoints")] == [config(head)] * 2

    def test_an_exit_run_that_goes_on_shows_the_heads_own_parent(self):
        """
        The checkpoint that it goes on from is stored, and so is its parent.
        """
        store = thread("b")
        parent = next(iter(store.points))
        run = Script(PAIR, EXIT, store=store, modes=frozenset({"checkpoints"}))
        run.begin(None)
        run.saved()

        assert [c["parent_config"] for c in run.streamed("checkpoints")] == [config(parent)]

    def test_the_time_is_that_of_the_id(self):
        """
        ISO 8601, UTC, with microseconds.
        """
        identifier = uuid6(GREGORIAN_OFFSET + 17_000_000_015_000_000, 0, 0)

        assert chunks.timestamp(identifier) == "2023-11-14T22:13:21.500000+00:00"

    def test_of_a_bare_graph_are_with_the_value(self):
        """
        The chunk of a checkpoint shows the value of the one key without the key.
        """
        run = Script(chain(Annotated[list, operator.add], "a"), modes=frozenset({"checkpoints"}))
        run.begin(["x"])
        run.saved()

        assert [c["values"] for c in run.streamed("checkpoints")] == [[], ["x"]]

    def test_the_parents_are_in_the_parents_config_too(self):
        """
        The config of the checkpoint before leads to the runs above as well; so do counters.
        """
        run = Script(chain(State, "a"), modes=frozenset({"checkpoints"}))
        run.state.nested = Nested({"": "1"}, {})
        run.state.namespace = "n:1"
        run.state.deltas = {"gone": (1, 1)}
        run.begin({"text": "x"})
        run.saved()
        first, second = run.streamed("checkpoints")

        assert second["parent_config"] == first["config"]
        assert "checkpoint_map" in first["config"]["configurable"]
        assert second["metadata"]["counters_since_delta_snapshot"] == {"gone": (1, 3)}

    def test_are_for_readers_of_debug_too(self):
        """
        With readers of `debug` alone the payload is wrapped only.
        """
        run = Script(chain(State, "a"), modes=frozenset({"debug"}))
        run.begin({"text": "x"})
        run.saved()

        assert [c["type"] for _, _, c in run.chunks] == ["checkpoint", "checkpoint", "task"]


class TestMetadata:
    def test_of_a_start_is_the_callers_and_the_nodes_without_the_place(self):
        """
        The node's keys win; tags of both are listed; the keys of the run's place are left out.
        """
        plan = chain(State, "a")
        object.__setattr__(plan.nodes["a"], "metadata", {"own": 1, "user": 2, "tags": ["n"]})
        place = {"parents": {"": "1"}, "langgraph_task_id": "1", "traceparent": "x"}
        run = Script(plan, modes=frozenset({"tasks"}), metadata={"user": 1, **place}, tags=("t",))
        run.begin({"text": "x"})
        run.saved()

        assert run.streamed("tasks")[0]["metadata"] == {"own": 1, "user": 2, "tags": ["t", "n"]}

    def test_of_a_start_without_any_is_left_out(self):
        """
        A chunk has no empty metadata; without tags it has no list of them.
        """
        runs = [Script(TWO, saver=False, modes=frozenset({"tasks"}), metadata=m) for m in MADE]
        for run in runs:
            run.begin({"text": "x"})

        assert [run.streamed("tasks")[0].get("metadata") for run in runs] == [None, {"user": 1}]


MADE: list[dict[str, Any]] = [{}, {"user": 1}]


class TestPauses:
    def test_the_output_of_a_pause_has_the_writes_of_finished_tasks(self):
        """
        They are shown and returned, while the run's own cells stay those of its checkpoint.
        """
        run = Script(TWO, modes=frozenset({"values"}))
        run.begin({"text": "x"})
        run.saved()
        before = (run.state.values, dict(run.state.versions), run.state.max_version)
        run.finish("a", log=["a"])
        run.ask("b", "why?")
        run.saved()

        assert run.outcome.values == {"text": "x", "log": ["a"]}
        assert run.streamed("values")[-1] == {"text": "x", "log": ["a"]}
        assert (run.state.values, run.state.versions, run.state.max_version) == before
        assert run.state.dirty == set()
        assert "a" not in run.state.seen

    @pytest.mark.parametrize("settings", [{"output_keys": ("text",)}, {}])
    def test_writes_to_other_keys_make_no_chunk(self, settings):
        """
        Without a write to an output key the output is that of the superstep before.
        """
        run = Script(TWO, modes=frozenset({"values"}), **settings)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", **({"log": ["a"]} if settings else {}))
        run.ask("b", "why?")
        run.saved()

        shown = {"text": "x"} if settings else {"text": "x", "log": []}
        assert run.outcome.values == shown
        first, asked = run.streamed("values")
        assert (first, {k: v for k, v in asked.items() if k != "__interrupt__"}) == (shown, shown)

    def test_writes_that_conflict_are_not_shown(self):
        """
        The conflict is an error of the superstep's end; until then the old output is shown.
        """
        plan = graph(State, dict.fromkeys("abc", idle), [*EDGES, (START, "c")])
        run = Script(plan, modes=frozenset({"values"}))
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", text="1")
        run.finish("b", text="2")
        run.ask("c", "why?")
        run.saved()

        assert run.outcome.values == {"text": "x", "log": []}
        assert len(run.streamed("values")) == 2

    def test_a_reducer_that_works_in_place_changes_the_preview_only(self):
        """
        The preview is folded into copies.
        """

        class InPlace(TypedDict):
            log: Annotated[list[str], operator.iadd]

        run = Script(graph(InPlace, dict.fromkeys("ab", idle), EDGES))
        run.begin({"log": ["x"]})
        run.saved()
        run.finish("a", log=["a"])
        run.ask("b", "why?")
        run.saved()

        assert run.outcome.values == {"log": ["x", "a"]}
        assert run.state.values["log"] == ["x"]

    def test_a_breakpoint_is_not_a_chunk_of_values(self):
        """
        Readers of updates see it; those of values have the state already.
        """
        run = Script(TWO, modes=frozenset({"values", "updates"}), interrupt_before=("a",))
        run.begin({"text": "x"})
        run.saved()

        assert run.chunks == [
            ((), "values", {"text": "x", "log": []}),
            ((), "updates", {"__interrupt__": ()}),
        ]


class TestOutput:
    def state(self, **policy: Any) -> RunState:
        """A state in which `text` has no value."""
        return RunState(chain(State, "a"), RunPolicy(**policy), Store().mint, has_saver=False)

    def test_has_the_keys_that_have_a_value(self):
        """
        Keys without a value are left out; a bare one is None.
        """
        assert chunks.output(self.state()) == {"log": []}
        assert chunks.output(self.state(output_keys=("text",), bare=True)) is None
        assert chunks.output(self.state(output_keys=("log",), bare=True)) == []

    def test_shows_values_as_readers_see_them(self):
        """
        A channel whose cell is not its value is read by its rule.
        """

        class After(TypedDict, total=False):
            text: str
            late: Annotated[int, LastValueAfterFinish]

        state = RunState(chain(After, "a"), RunPolicy(), Store().mint, has_saver=False)
        state.values = {"text": "x", "late": state.plan.channels["late"].fold("late", None, [1])}

        assert chunks.output(state) == {"text": "x"}
        rule = state.plan.channels["late"]
        state.values["late"] = rule.finish(state.values["late"])
        assert chunks.output(state) == {"text": "x", "late": 1}

    def test_the_newest_is_none_until_an_output_key_has_changed(self):
        """
        A preview counts before the state.
        """
        state = self.state()
        assert chunks.last_output(state) is None
        state.has_output = True
        assert chunks.last_output(state) == {"log": []}
        state.preview = {"log": ["x"]}
        assert chunks.last_output(state) == {"log": ["x"]}


class TestGates:
    @pytest.mark.parametrize(("mode", "shown"), [(SYNC, 0), (ASYNC, 1), (EXIT, 1)])
    def test_chunks_of_the_input_wait_for_its_save(self, mode, shown):
        """
        In sync mode the chunks of the input's checkpoint come when they are stored.
        """
        run = Script(chain(State, "a"), mode, modes=frozenset({"values", "checkpoints"}))
        run.begin({"text": "x"})
        assert len(run.streamed("values")) == shown
        assert len(run.streamed("checkpoints")) == 2 * shown

        run.saved()
        assert len(run.streamed("values")) == 1
        assert len(run.streamed("checkpoints")) == 2

    def test_one_that_waits_holds_back_all_behind_it(self):
        """
        Readers get chunks in their order.
        """
        run = Script(TWO, modes=frozenset({"updates"}))
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.finish("b", log=["b"])
        assert run.streamed("updates") == []
        run.saved(2)
        assert [list(c) for c in run.streamed("updates")] == [["a"]]
        run.saved(3)
        assert [list(c) for c in run.streamed("updates")] == [["a"], ["b"]]


class Secret(TypedDict, total=False):
    text: str
    key: Annotated[str, UntrackedValue]


@pytest.mark.parametrize("stored", [True, False])
def test_untracked_values_are_taken_out_of_a_stored_stream(stored):
    """
    Where chunks are stored as the run's events they lack them; a live reader sees them.
    """
    modes = frozenset({"values", "updates"})
    run = Script(chain(Secret, "a"), saver=False, modes=modes, stored_stream=stored)
    run.begin({"text": "x", "key": "secret"})
    run.finish("a", {"key": "other"})

    shown = [] if stored else ["key"]
    assert [sorted(c) for c in run.streamed("values")] == [sorted([*shown, "text"])] * 2
    assert [sorted(c["a"]) for c in run.streamed("updates")] == [shown]


class TestCalls:
    def test_a_call_has_the_chunks_of_a_task(self):
        """
        Its start with its arguments, its update under its name, and its result or its error.
        """
        run = Program("a", modes=ALL).begun()
        run.chunks.clear()
        good = run.called(run.task("a"), "good")
        bad = run.called(run.task("a"), "bad")
        stamp = run.state.checkpoint
        run.ends(good, 7)
        run.saved()
        run.running.pop(bad.id)
        run.event(TaskFailed(bad.id, ValueError("no")))
        run.saved()

        def begun(task: Any) -> Any:
            return {"id": task.id, "name": task.name, "input": ((), {}), "triggers": task.triggers}

        def ended(task: Any, **outcome: Any) -> Any:
            shown = {"id": task.id, "name": task.name, "error": None, "result": {}}
            return {**shown, "interrupts": [], **outcome}

        returned = ended(good, result={"__return__": 7})
        raised = ended(bad, error="ValueError('no')")
        assert run.chunks == [
            ((), "tasks", begun(good)),
            debug(1, "task", stamp, begun(good)),
            ((), "tasks", begun(bad)),
            debug(1, "task", stamp, begun(bad)),
            ((), "updates", {"good": 7}),
            ((), "tasks", returned),
            debug(1, "task_result", stamp, returned),
            ((), "tasks", raised),
            debug(1, "task_result", stamp, raised),
        ]

    def test_a_cached_result_of_a_call_is_marked(self):
        """
        As that of a node is.
        """
        run = Program("a", modes=frozenset({"updates"})).begun()
        call = run.called(run.task("a"), "f")
        run.running.pop(call.id)
        run.event(TaskSucceeded(TaskResult(call.id, (("__return__", 7),), cached=True)))
        run.saved()

        assert run.streamed("updates") == [{"f": 7, "__metadata__": {"cached": True}}]

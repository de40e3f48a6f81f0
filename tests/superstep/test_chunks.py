"""Chunks of each stream mode: decided by the core, tried event by event."""

from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.plan.plan import Plan
from actorgraph.values.commands import Command
from actorgraph.values.policies import Durability
from actorgraph.values.run import Interrupted
from tests.superstep.script import Script, Store, chain, graph, idle


class State(TypedDict, total=False):
    """`text` keeps the last value, `log` appends."""

    text: str
    log: Annotated[list[str], add]


def three() -> Plan:
    """START -> a, b and c at once."""
    edges = [("__start__", name) for name in "abc"]
    return graph(State, dict.fromkeys("abc", idle), edges)


def read(plan: Plan, *modes: str, given: Any = None, **settings: Any) -> Script:
    """A run that has begun, with readers of these modes."""
    run = Script(plan, modes=frozenset(modes), **settings)
    run.begin({"text": "in"} if given is None else given)
    run.saved()
    return run


def end(run: Script, name: str, *returned: Any, **update: Any) -> None:
    """A node returns, and what that leads to is stored."""
    run.finish(name, *returned, **update)
    run.saved()


class TestValues:
    @pytest.mark.langgraph("F-D1")
    def test_the_input_comes_first_and_then_each_change(self):
        """
        One chunk after the input and one after each superstep.
        """
        run = read(chain(State, "a", "b"), "values")
        end(run, "a", log=["a"])
        end(run, "b", log=["b"])

        assert run.streamed("values") == [
            {"text": "in", "log": []},
            {"text": "in", "log": ["a"]},
            {"text": "in", "log": ["a", "b"]},
        ]

    @pytest.mark.langgraph("F-D1", "L97")
    def test_a_superstep_that_writes_no_output_key_sends_nothing(self):
        """
        `values` has changes, not supersteps.
        """
        run = read(chain(State, "a", "b"), "values")
        end(run, "a", {})
        end(run, "b", log=["b"])

        assert len(run.streamed("values")) == 2

    @pytest.mark.langgraph("L97")
    def test_a_run_that_writes_nothing_returns_none(self):
        """
        Without a changed output key no output is sent.
        """
        run = Script(chain(State, "a"))
        run.begin({})
        run.saved()
        end(run, "a", {})

        assert run.outcome.values is None

    @pytest.mark.langgraph("F-D1")
    def test_a_resume_sends_the_state_first(self):
        """
        Before anything runs, a resumed reader gets the current state.
        """
        store = Store()
        first = read(chain(State, "a", "b"), "values", store=store, interrupt_before=("b",))
        end(first, "a", log=["a"])
        again = Script(chain(State, "a", "b"), store=store, modes=frozenset({"values"}))
        again.begin(None)
        again.saved()

        assert again.streamed("values") == [{"text": "in", "log": ["a"]}]

    @pytest.mark.langgraph("F-D1", "L98")
    def test_a_question_is_the_whole_state_with_the_question(self):
        """
        An interrupt's chunk is the full state and `__interrupt__`.
        """
        run = read(chain(State, "a"), "values")
        run.ask("a", "why?")
        run.saved()

        *_, last = run.streamed("values")
        assert {k: v for k, v in last.items() if k != "__interrupt__"} == {"text": "in", "log": []}
        assert [i.value for i in last["__interrupt__"]] == ["why?"]

    @pytest.mark.langgraph("L98")
    def test_a_question_over_a_bare_value_is_sent_alone(self):
        """
        Where the state isn't a dict, the question's chunk has nothing but the question.
        """
        run = read(chain(Annotated[list, add], "a"), "values", given=["in"])
        run.ask("a", "why?")
        run.saved()

        first, asked = run.streamed("values")
        assert first == ["in"]
        assert list(asked) == ["__interrupt__"]

    @pytest.mark.langgraph("F-D18")
    def test_one_key_asked_for_by_its_name_comes_bare(self):
        """
        Chunks show the key's value without the key.
        """
        run = read(
            chain(State, "a"), "values", "updates", "tasks", output_keys=("text",), bare=True
        )
        end(run, "a", text="out", log=["a"])

        assert run.streamed("values") == ["in", "out"]
        assert run.streamed("updates") == [{"a": "out"}]
        assert run.streamed("tasks")[-1]["result"] == {"text": "out", "log": ["a"]}


class TestUpdates:
    @pytest.mark.langgraph("F-D2", "L97")
    def test_tasks_are_reported_as_they_finish(self):
        """
        Chunks come in the order of completion, the state folds in path order.
        """
        run = read(three(), "updates", "values")
        for name in "cab":
            end(run, name, log=[name])

        assert [next(iter(chunk)) for chunk in run.streamed("updates")] == ["c", "a", "b"]
        assert run.streamed("values")[-1]["log"] == ["a", "b", "c"]

    @pytest.mark.langgraph("F-D2")
    @pytest.mark.parametrize(
        ("returned", "shown"),
        [
            ({"text": "x"}, {"text": "x"}),
            ({"text": "x", "log": ["y"]}, {"text": "x", "log": ["y"]}),
            (Command(goto="__end__"), None),
            ([{"log": ["1"]}, {"log": ["2"]}], [{"log": ["1"]}, {"log": ["2"]}]),
            ([{"log": ["1"]}, Command(update={"text": "x"})], {"log": ["1"], "text": "x"}),
        ],
    )
    def test_a_tasks_writes_are_a_dict_or_a_list(self, returned, shown):
        """
        A dict; a list where a key repeats; None where it wrote nothing.
        """
        run = read(chain(State, "a"), "updates")
        end(run, "a", returned)

        assert run.streamed("updates") == [{"a": shown}]

    @pytest.mark.langgraph("F-D2", "L115")
    def test_questions_of_siblings_are_sent_as_they_come_and_returned_in_path_order(self):
        """
        Each question has a chunk; the run's own list is by path, whatever came first.
        """
        run = read(three(), "updates")
        run.ask("c", "c?")
        run.ask("a", "a?")
        run.finish("b", log=["b"])
        run.saved()

        asked = [c["__interrupt__"][0].value for c in run.streamed("updates") if "b" not in c]
        assert asked == ["c?", "a?"]
        assert isinstance(run.outcome, Interrupted)
        assert [i.value for i in run.outcome.interrupts] == ["a?", "c?"]


class TestTasks:
    @pytest.mark.langgraph("F-D5")
    def test_start_and_result(self):
        """
        The start has input and triggers, the result what was written.
        """
        run = read(chain(State, "a"), "tasks")
        end(run, "a", [{"log": ["1"]}, {"log": ["2"], "text": "x"}])

        start, result = run.streamed("tasks")
        assert start == {
            "id": start["id"],
            "name": "a",
            "input": {"text": "in", "log": []},
            "triggers": ("branch:to:a",),
        }
        assert result == {
            "id": start["id"],
            "name": "a",
            "error": None,
            "result": {"log": {"$writes": [["1"], ["2"]]}, "text": "x"},
            "interrupts": [],
        }

    @pytest.mark.langgraph("F-D5")
    def test_metadata_is_the_callers_and_the_nodes(self):
        """
        A start carries the run's metadata and tags and the node's.
        """
        run = read(chain(State, "a"), "tasks", metadata={"user": 1}, tags=("t",))

        assert run.streamed("tasks")[0]["metadata"] == {"user": 1, "tags": ["t"]}

    @pytest.mark.langgraph("F-D5")
    def test_an_error_and_a_question_are_results(self):
        """
        The chunk of a task that raised has the error's text, of one that asked its questions.
        """
        run = read(three(), "tasks")
        run.ask("a", "why?")
        run.fail("b", ValueError("boom"))
        run.stop("c")
        run.saved()

        asked, failed = run.streamed("tasks")[3:]
        keys = {"value", "id", "response_schema"}
        assert [(i["value"], set(i)) for i in asked["interrupts"]] == [("why?", keys)]
        assert failed["error"] == "ValueError('boom')"
        assert (asked["result"], failed["result"]) == ({}, {})

    @pytest.mark.langgraph("F-D5", "F-D20")
    def test_a_hidden_node_sends_nothing(self):
        """
        A node with the hidden tag has no chunk in any mode.
        """
        plan = chain(State, "a", "b")
        hidden = graph(State, {"a": idle, "b": idle}, [("__start__", "a"), ("a", "b")])
        object.__setattr__(hidden.nodes["a"], "hidden", True)
        runs = [read(p, "tasks", "updates", "debug", saver=False) for p in (plan, hidden)]
        for run in runs:
            run.finish("a", log=["a"])
            run.finish("b", log=["b"])

        plainly, silently = ([c for _, _, c in run.chunks] for run in runs)
        assert len(plainly) == 10
        assert len(silently) == 5
        assert "'a'" not in str([c.get("name") for c in silently])


class TestCheckpoints:
    @pytest.mark.langgraph("F-D6")
    def test_each_names_what_follows(self):
        """
        Values, next nodes and their tasks at each stored checkpoint.
        """
        run = read(chain(State, "a"), "checkpoints")
        end(run, "a", log=["a"])

        told = run.streamed("checkpoints")
        assert [c["next"] for c in told] == [["__start__"], ["a"], []]
        assert [c["metadata"]["step"] for c in told] == [-1, 0, 1]
        assert [[t["name"] for t in c["tasks"]] for c in told] == [["__start__"], ["a"], []]
        assert [c["parent_config"] for c in told[1:]] == [c["config"] for c in told[:-1]]

    @pytest.mark.langgraph("F-D6")
    def test_a_resume_sends_the_checkpoint_that_it_begins_at(self):
        """
        With what its tasks have asked, raised and written so far.
        """
        store = Store()
        first = read(three(), "checkpoints", store=store)
        first.ask("a", "why?")
        first.finish("b", log=["b"])
        first.fail("c", ValueError("boom"))
        first.saved()
        again = Script(three(), store=store, modes=frozenset({"checkpoints"}))
        again.begin(None)
        again.saved()

        (told,) = again.streamed("checkpoints")
        a, b, c = told["tasks"]
        assert told["config"] == first.streamed("checkpoints")[-1]["config"]
        assert [i["value"] for i in a["interrupts"]] == ["why?"]
        assert b["result"] == {"log": ["b"]}
        assert c == {"id": c["id"], "name": "c", "error": "ValueError('boom')", "state": None}

    @pytest.mark.langgraph("F-D6")
    @pytest.mark.parametrize(
        "settings", [{"interrupt_after": ("a",)}, {"recursion_limit": 1}], ids=["after", "limit"]
    )
    def test_a_run_that_stops_sends_its_last_checkpoint(self, settings):
        """
        Also when a breakpoint or the recursion limit ends the run.
        """
        run = read(chain(State, "a", "b"), "checkpoints", **settings)
        end(run, "a", log=["a"])

        assert run.streamed("checkpoints")[-1]["next"] == ["b"]

    @pytest.mark.langgraph("F-D6")
    def test_without_a_saver_there_are_none(self):
        """
        Results that are not stored are not shown.
        """
        run = read(chain(State, "a"), "checkpoints", "debug", saver=False)
        run.finish("a", log=["a"])

        assert run.streamed("checkpoints") == []
        assert {c["type"] for c in run.streamed("debug")} == {"task", "task_result"}

    def test_exit_names_only_parents_that_are_stored(self):
        """
        In exit mode the checkpoints between are never stored, so no chunk names one as parent.
        """
        run = read(chain(State, "a"), "checkpoints", durability=Durability.EXIT)
        end(run, "a", log=["a"])

        assert [c["parent_config"] for c in run.streamed("checkpoints")] == [None] * 3


class TestDebug:
    @pytest.mark.langgraph("F-D7")
    def test_it_wraps_tasks_and_checkpoints(self):
        """
        The payloads of both modes, with a step, a moment and a type.
        """
        run = read(chain(State, "a"), "debug", "tasks", "checkpoints")
        end(run, "a", log=["a"])

        wrapped = run.streamed("debug")
        assert [(c["step"], c["type"]) for c in wrapped] == [
            (-1, "checkpoint"),
            (0, "checkpoint"),
            (1, "task"),
            (1, "task_result"),
            (1, "checkpoint"),
        ]
        by_kind = {
            kind: [c["payload"] for c in wrapped if c["type"].startswith(kind)]
            for kind in ("task", "checkpoint")
        }
        assert by_kind["task"] == run.streamed("tasks")
        assert by_kind["checkpoint"] == run.streamed("checkpoints")


class TestHiddenNodes:
    @pytest.mark.langgraph("F-D20")
    def test_breakpoints_at_all_nodes_leave_them_out(self):
        """
        `interrupt_before="*"` does not pause before a hidden node.
        """
        plan = graph(State, {"a": idle, "b": idle}, [("__start__", "a"), ("a", "b")])
        object.__setattr__(plan.nodes["a"], "hidden", True)
        run = read(plan, "updates", interrupt_before=("*",))

        assert run.names == ["a"]
        end(run, "a", log=["a"])
        assert isinstance(run.outcome, Interrupted)
        assert run.streamed("updates") == [{"__interrupt__": ()}]

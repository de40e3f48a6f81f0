"""Which routers are certain to be quick, by their code alone."""

import importlib.util
import linecache
import sys
from functools import cache, partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph import END, START, StateGraph
from actorgraph.errors import GraphBuildError
from actorgraph.plan.callables import first_schema, injected
from actorgraph.plan.function_source import syntax_of
from actorgraph.plan.quick_functions import Verdict, judge
from actorgraph.prebuilt import create_react_agent, tools_condition

FOLDER = Path(__file__).parent / "routers"
ACCEPTED_MIN = 0.9
"""Share of the plain routers that are accepted; what the rest does is listed at its end."""


@cache
def corpus(name: str) -> ModuleType:
    """A file of routers, as a module: text, because a linter would refuse most of it."""
    return module_of(FOLDER / f"{name}.txt")


def module_of(path: Path) -> ModuleType:
    loader = SourceFileLoader(f"routers_{path.stem}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # annotations are resolved there
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def routers(name: str) -> list[str]:
    return [found for found in vars(corpus(name)) if found.startswith("route_")]


def verdict(function: Any) -> Verdict:
    return judge(function, first_schema(function) or Any, injected(function))


class TestCorpora:
    @pytest.mark.parametrize("name", routers("blocking"))
    def test_a_router_that_may_block_is_refused(self, name):
        """
        However the call is hidden, a router that may wait is refused, with a reason.
        """
        found = verdict(getattr(corpus("blocking"), name))

        assert not found.quick
        assert found.why

    def test_most_plain_routers_are_accepted(self, capsys):
        """
        Of the routers that programs write, those that only read the state are accepted.
        """
        names = routers("plain")
        found = {name: verdict(getattr(corpus("plain"), name)) for name in names}
        refused = {name: v.why for name, v in found.items() if not v.quick}
        share = 1 - len(refused) / len(names)
        with capsys.disabled():
            print(f"\n{len(names) - len(refused)} of {len(names)} plain routers are accepted")

        assert len(names) >= 100
        assert len(routers("blocking")) >= 60
        assert share >= ACCEPTED_MIN, refused


PIECES = [
    'state["messages"][-1].tool_calls',
    'len(state["messages"]) > 3',
    'any(m.type == "ai" for m in state["messages"])',
    'state.get("next", "x").lower().startswith("a")',
    '{"a": "b"}.get(state["kind"])',
    'sorted(state["xs"], key=lambda x: x["score"])',
    'isinstance(state["x"], (str, int))',
    "f\"{state['x']:>10}\"",
    '[y for x in state["xs"] for y in x if y]',
    "helper(state)",
]
WAITS = [
    "time.sleep(1)",
    "open('x').read()",
    "CLIENT.get('u')",
    "(CLIENT / state['x'])",
    "CLIENT[state['x']]",
    "waiting_helper(state)",
    "state['model'].invoke('x')",
    "(lambda: time.sleep(1))()",
    "[time.sleep(x) for x in state['xs']]",
    "print(state)",
]
FRAMES = [
    "def route(state):\n    return {0} or {1}",
    "def route(state):\n    if {0}:\n        return 'a'\n    return 'b' if {1} else 'c'",
    "def route(state):\n    xs = []\n    for x in [{0}]:\n        xs.append({1})\n    return xs",
    "def route(state):\n    def inner():\n        return {1}\n    return {0} and inner()",
    "route = lambda state: (lambda: {0})() and [{1} for _ in state['xs']]",
    "def route(state):\n    try:\n        return {0}\n    except KeyError:\n        return {1}",
    "def route(state):\n    match {0}:\n        case y if {1}:\n            return y",
]
AROUND = """
import time
class Client:
    def get(self, url): time.sleep(1)
    def __truediv__(self, other): time.sleep(1)
    def __getitem__(self, key): time.sleep(1)
CLIENT = Client()
def helper(state): return state["x"] in ("a", "b")
def waiting_helper(state): return helper(state) and CLIENT.get("u")
"""


class TestCompositions:
    @given(
        frame=st.sampled_from(FRAMES),
        pieces=st.lists(st.sampled_from(PIECES), min_size=2, max_size=2),
        wait=st.sampled_from(WAITS),
        place=st.integers(0, 1),
    )
    def test_one_call_that_may_block_is_enough(self, tmp_path_factory, frame, pieces, wait, place):
        """
        Quick pieces make a quick router, and any of them replaced by a call that waits makes one
        that is refused.
        """
        folder = tmp_path_factory.mktemp("composed")
        mixed = [*pieces]
        mixed[place] = wait
        (folder / "quick.txt").write_text(AROUND + frame.format(*pieces))
        (folder / "mixed.txt").write_text(AROUND + frame.format(*mixed))

        assert verdict(module_of(folder / "quick.txt").route).quick
        assert not verdict(module_of(folder / "mixed.txt").route).quick


TWO = (lambda state: state["a"]), (lambda state: input(state["b"]))
INSIDE = lambda state: lambda: input(state["b"])  # noqa: E731


class TestSource:
    def test_lambdas_of_one_line_are_kept_apart(self):
        """
        The text of a lambda is found by its position, also beside and inside of another one.
        """
        assert [verdict(each).quick for each in (*TWO, INSIDE, INSIDE({}))] == [
            True,
            False,
            True,
            False,
        ]

    def test_a_file_that_was_changed_after_its_import_is_not_believed(self, tmp_path):
        """
        The text counts only if it compiles to the code that runs.
        """
        path = tmp_path / "changed.txt"
        path.write_text("import time\ndef route(state):\n    return time.sleep(1)\n")
        route = module_of(path).route
        path.write_text("import time\ndef route(state):\n    return state['x']\n")
        linecache.clearcache()

        assert syntax_of(route) is None
        assert verdict(route) == Verdict(quick=False, why="its source can't be read")

    def test_a_decorator_is_judged_and_not_what_it_wraps(self):
        """
        `__wrapped__` is only a label: the function that is called is the wrapper.
        """
        assert not verdict(corpus("blocking").route_decorated).quick
        assert verdict(corpus("blocking").route_decorated.__wrapped__).quick


class TestReasons:
    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("route_sleep", "calls time.sleep"),
            ("route_json", "calls json.loads"),
            ("route_requests", "calls requests.api.get, which calls requests.api.request"),
            ("route_busy", "has a while loop"),
            ("route_recursive", "calls routers_blocking.recursive, which is recursive"),
            ("route_with_lock", "has a with block"),
            ("route_function_of_state", "calls a value of the state"),
            ("route_helper", "calls routers_blocking.helper, which calls requests.api.get"),
        ],
    )
    def test_a_refusal_names_its_cause(self, name, why):
        """
        The reason names what may wait, and the helper that it was found in.
        """
        assert verdict(getattr(corpus("blocking"), name)).why == why

    def test_an_acceptance_names_the_helpers(self):
        """
        A router that calls other functions says which ones were read too.
        """
        assert verdict(corpus("plain").route_grade).why == "only reads the state"
        found = verdict(corpus("plain").route_helpers).why
        assert found == "only reads the state, also in last_of(), has_tools()"


class TestGraphs:
    def test_the_plan_holds_what_was_decided(self):
        """
        A declaration wins over the proof, and the topology says for each router which it was.
        """

        def quick(state):
            return state["x"]

        def slow(state):
            return input(state["x"])

        async def later(state):
            return END

        builder = StateGraph(dict).add_node("a", quick).add_node("b", quick)
        builder.add_conditional_edges("a", quick, ["b", END])
        builder.add_conditional_edges("a", slow, ["b", END])
        builder.add_conditional_edges("b", later, [END])
        builder.add_conditional_edges("b", partial(quick), [END], inline=False)
        builder.set_conditional_entry_point(slow, ["a"], inline=True)

        found = {
            (row["node"], row["name"]): (row["called_on"], row["why"])
            for row in builder.compile().topology()["routers"]
        }

        assert found == {
            (START, "slow"): ("event loop", "declared by inline=True"),
            ("a", "quick"): ("event loop", "only reads the state"),
            ("a", "slow"): ("worker thread", "calls input"),
            ("b", "later"): ("event loop", "async"),
            ("b", "quick"): ("worker thread", "declared by inline=False"),
        }

    @pytest.mark.parametrize("inline", ["yes", [], 2])
    def test_a_wrong_declaration_is_refused(self, inline):
        """
        `inline` is a bool or None; the error names the router, its node and the value.
        """
        builder = StateGraph(dict).add_node("a", lambda state: state)

        with pytest.raises(GraphBuildError) as caught:
            builder.add_conditional_edges("a", syntax_of, [END], inline=inline)

        assert caught.value.what == (
            f"inline of 'syntax_of' behind node 'a' must be True, False or None, got {inline!r}"
        )

    def test_our_own_routers_are_quick(self):
        """
        `tools_condition` and the routers of agents are called on the event loop.
        """

        def tool(x: str) -> str:
            """Return it."""
            return x

        def hook(state):
            return {}

        agents = [
            create_react_agent(print, [tool]),
            create_react_agent(print, [tool], version="v1", post_model_hook=hook),
        ]
        rows = [row for agent in agents for row in agent.topology()["routers"]]

        assert verdict(tools_condition).quick
        assert len(rows) >= 2
        assert [row["why"] for row in rows if row["called_on"] != "event loop"] == []

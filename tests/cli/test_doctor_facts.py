"""The facts that doctor gathers: of the source of nodes, of annotations, of applications."""

import functools
from dataclasses import dataclass

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount

from actorgraph import END, START, ActorSystem, Codec, InMemorySaver, StateGraph
from actorgraph.cli.doctor.database_facts import filesystem_of
from actorgraph.cli.doctor.facts import Examined
from actorgraph.cli.doctor.judging import diagnose
from actorgraph.cli.doctor.known_calls import BLOCKING, FILES, known
from actorgraph.cli.doctor.node_calls import calls_of, functions_in, returned_keys
from actorgraph.cli.doctor.program_facts import input_facts, module_facts, program_facts
from actorgraph.cli.doctor.state_types import unstorable_types, unstorable_values
from actorgraph.studio import Studio
from actorgraph.web import GraphRoutes, Limits, served
from tests.cli import doctor_programs as programs


def names(function, table):
    return [f"{c.package}.{c.name}" for c in calls_of(function) if known(c, table)]


def one_node(function, *, saver=None):
    builder = StateGraph(programs.Cart)
    builder.add_node("node", function)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(checkpointer=saver)


def found(named, **facts):
    return diagnose(Examined(program_facts("app:app", named), **facts))


class TestNodes:
    def test_blocking_calls_are_found_under_any_name(self):
        """
        Imports under other names, constructed objects and functions of the program are followed.
        """
        assert names(programs.blocks, BLOCKING) == [
            *("time.sleep", "time.sleep", "urllib.urlopen", "subprocess.run", "sqlite3.connect"),
            *("requests.get", "requests.Session.post"),
        ]
        through = [call.through for call in calls_of(programs.blocks) if call.name == "get"]
        assert through == [("fetch",)]

    def test_file_calls_are_found(self):
        """
        open() and the methods of a Path count, also of one that a name holds.
        """
        assert names(programs.reads, FILES) == ["io.open", "pathlib.Path.read_text"]

    def test_calls_for_worker_threads_are_not_found(self):
        """
        A function that is handed over is not called, nor is the body of an inner function.
        """
        assert names(programs.is_right, BLOCKING) == []

    def test_wrapped_functions_are_read(self):
        """
        Partials, methods and decorated functions are looked through.
        """

        @functools.wraps(programs.reads)
        def wrapper(state):
            return programs.reads(state)

        assert functions_in(functools.partial(programs.reads)) == [programs.reads]
        assert functions_in(wrapper) == [programs.reads]
        assert functions_in(3) == []

    def test_returned_keys_are_read_from_dicts_and_commands(self):
        """
        The keys come with their lines; values that are computed have none.
        """
        keys = [(key.key, key.line) for key in returned_keys(programs.misspells)]

        first = programs.misspells.__code__.co_firstlineno
        assert keys == [("totl", first + 2), ("total", first + 3), ("sum", first + 3)]


class TestGraphs:
    @pytest.mark.parametrize(
        ("function", "codes"),
        [
            (programs.blocks, {"node.blocking-call"}),
            (programs.reads, {"node.file-call"}),
            (programs.misspells, {"node.unknown-key"}),
            (programs.asks, {"graph.no-saver"}),
            (programs.is_right, set()),
        ],
    )
    def test_a_mistake_in_a_node_is_found(self, function, codes):
        """
        The source of a graph's node is judged, and a right node has no finding.
        """
        assert {one.code for one in found(one_node(function))} == codes

    def test_a_backend_is_compared(self):
        """
        A node that calls asyncio is refused on trio alone.
        """
        graph = one_node(programs.on_asyncio)

        assert {one.code for one in found(graph, backend="trio")} == {"node.backend-mismatch"}
        assert found(graph, backend="asyncio") == []

    def test_types_that_a_saver_refuses_come_with_their_path(self):
        """
        Untracked keys and Any are left out, as is every type of a graph without a saver.
        """
        stored = found(one_node(programs.is_right, saver=InMemorySaver()))

        assert [one.culprit for one in stored] == ["state.items[].clients{}"]
        assert found(one_node(programs.is_right)) == []

    @pytest.mark.parametrize("of", ["graph", "subgraph", "system"])
    def test_types_with_a_converter_are_stored(self, of):
        """
        A type that the saver's codec converts is none to report, also in a graph below and in a
        system; an input's value of it isn't either.
        """
        pair = (lambda client: {}, lambda plain: programs.Client())
        saver = InMemorySaver(codec=Codec(converters={programs.Client: pair}))
        graph = one_node(programs.is_right, saver=None if of != "graph" else saver)
        if of == "subgraph":
            graph = StateGraph(programs.Cart).add_node("below", graph).add_edge(START, "below")
            graph = graph.compile(saver)
        if of == "system":
            graph = next(iter(ActorSystem({"g": graph}, saver=saver).graphs.values()))

        assert [one.culprit for one in found(graph) if "unstorable" in one.code] == []
        assert input_facts(graph, {"items": [{"clients": programs.Client()}]}).unstorable == ()

    def test_an_input_is_compared_with_keys_and_types(self):
        """
        A misspelt key, and a value inside a list, are both named.
        """
        graph = one_node(programs.is_right, saver=InMemorySaver())

        facts = input_facts(graph, {"totl": 1, "items": [1, {"clients": programs.Client()}]})

        assert facts.unknown == ("totl",)
        assert [path for path, _ in facts.unstorable] == ["state['items'][1]['clients']"]


class TestTypes:
    @pytest.mark.parametrize(
        ("annotation", "paths"),
        [
            (programs.Client, ["k"]),
            (list[programs.Client] | None, ["k[]"]),
            (dict[str, tuple[programs.Client, int]], ["k{}[]"]),
            (memoryview, ["k"]),
            (int | str | list[bytes], []),
            (ValueError, []),
            (object, []),
        ],
    )
    def test_annotations_are_looked_into(self, annotation, paths):
        """
        Containers, unions and classes inside each other are followed.
        """
        assert [fact.path for fact in unstorable_types(annotation, "k")] == paths

    def test_a_class_with_storable_subclasses_is_left_out(self):
        """
        A key of a base class may have values of a dataclass derived from it.
        """

        class Shape: ...

        @dataclass
        class Circle(Shape):
            radius: float

        assert [*unstorable_types(Shape, "k")] == []
        assert [*unstorable_values(Circle(1.0), "k")] == []


class TestModules:
    def test_imports_addresses_and_settings_are_read(self):
        """
        An import with an alternative, inside try, isn't needed.
        """
        facts = module_facts(
            "import actorgraph.web\n"
            "try:\n    import trio\nexcept ImportError: ...\n"
            "from actorgraph import PostgresSaver\n"
            "graph.invoke({}, durability='exit')\n"
            "place = 'postgresql://db'\nsaver.retention(3)\n",
            "app.py",
        )

        assert facts.imports == (("actorgraph.web", 1), ("actorgraph.PostgresSaver", 5))
        assert facts.exits == (6,)
        assert facts.addresses == (("postgresql", 7),)
        assert "retention" in facts.words


class TestApplications:
    def test_mounted_routes_and_studios_are_found(self):
        """
        Rules, limits, hosts and CORS middleware of a Starlette application are read.
        """
        system = ActorSystem({"g": one_node(programs.asks)})
        app = Starlette(
            routes=[
                Mount("/api", GraphRoutes(system, limits=Limits(requests_per_s=5))),
                Mount("/studio", Studio(system, authorize=lambda *_: True, hosts=["*"])),
            ],
            middleware=[Middleware(CORSMiddleware, allow_origins=["*"])],
        )

        facts = program_facts("app:app", app)

        routes, studio = sorted(facts.served, key=lambda one: one.path)
        assert (routes.path, routes.has_rules, routes.has_rates) == ("/api", False, True)
        assert (studio.path, studio.hosts, studio.any_origin) == ("/studio", ("*",), True)
        assert [system.graphs for system in facts.systems] == [frozenset({"g"})]

    def test_an_application_of_its_own_is_looked_into(self):
        """
        `served(system)` has routes and a system.
        """
        system = ActorSystem({"g": one_node(programs.is_right)}, builds=())
        facts = program_facts("app:app", served(system, authorize=lambda *_: True))

        assert [one.has_rules for one in facts.served] == [True]
        assert len(facts.systems) == 1


class TestFileSystems:
    def test_the_longest_mount_point_counts(self, tmp_path):
        """
        A folder below a mounted one has its type; names that only begin alike have not.
        """
        mounts = f"a / ext4 rw 0 0\nb {tmp_path}/net nfs4 rw 0 0\nc {tmp_path}/n tmpfs rw 0 0\n"

        assert filesystem_of(tmp_path / "net" / "runs.db", mounts) == "nfs4"
        assert filesystem_of(tmp_path / "runs.db", mounts) == "ext4"

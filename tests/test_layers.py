"""Imports point one way, the core is pure (docs/ARCHITECTURE.md, layers), classes are of few parts.

Every import counts: at the top, inside a function, under `if TYPE_CHECKING`, by
`import_module("actorgraph...")`. Each rule is first tried on made-up files that break it.
"""

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

import actorgraph
from actorgraph import CompiledStateGraph
from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.values.schema_types import BuilderTypes, GraphTypes
from tests.support.house import Tree, circles, imports_of
from tests.support.source_files import ROOT, Place, Source, call_name, hold, snippet, sources
from tests.test_public_names import is_ours

# Where programs find the names that the root's `__all__` leaves out.
REEXPORTS = {"types", "graph", "functional", "streams", "checkpoints", "systems"}

# A layer may import those above it in this list. Layers in one row know nothing of each other.
ORDER = [
    {"bridging"},
    {"errors"},
    {"values"},
    {"messages"},
    {"channels"},
    {"plan"},
    {"superstep", "rules", "drawing"},
    {"ports"},
    {"codec"},
    {"loops"},
    {"storage"},
    {"runtime", "savers", "stores", "caches"},
    {"dispatch"},
    {"api"},
    REEXPORTS,
    # What prebuilt, migrate, web, studio and cli take from the layers above: see test_rings.py.
    {"internals"},
    {"sessions"},
    {"web", "prebuilt", "testing", "migrate"},
    {"studio"},
    {"cli"},
    {"bridges"},
    {"compat"},
    # `import actorgraph` re-exports everything, so nothing inside may import it back.
    {"__init__"},
    {"__main__"},
]
RANK = {layer: rank for rank, row in enumerate(ORDER) for layer in row}

# The same inside the packages that have rooms; "" are the files right below the package.
ROOMS = {
    "runtime": [{""}, {"saver"}, {"task"}, {"run"}, {"system"}],
    "api": [
        {""},
        {"savers", "streams", "batches"},
        {"graph", "savers/wrappers"},
        {"functional", "system"},
        # An older path of `actorgraph.systems`.
        {"system_metrics"},
    ],
    "superstep": [{""}, {"changes"}],
    "rules": [{""}, {"system"}],
    "savers": [{""}, {"foreign", "sqlite"}, {"memory", "postgres"}, {"jsonl"}],
    "storage": [{""}, {"sqlite", "postgres"}],
    "web": [
        {"jobs"},
        {"http"},
        {"registries"},
        {"endpoints"},
        {"agent_protocol", "stream_protocol"},
        {""},
    ],
}

PURE = {"values", "channels", "plan", "superstep", "rules", "drawing"}

# What waits, reads a clock, rolls dice, or touches the world outside.
IMPURE_MODULES = {
    *("aiofiles", "fcntl", "http", "io", "os", "resource", "shutil", "socket", "ssl", "tempfile"),
    *("anyio", "asyncio", "concurrent", "multiprocessing", "sched", "select", "selectors"),
    *("queue", "signal", "subprocess", "threading", "trio", "urllib"),
    *("aiosqlite", "psycopg", "sqlite3", "logging", "structlog"),
    *("random", "secrets", "time", "uuid_utils"),
}
# The rest of these modules is fine: `datetime` and `uuid` are types of values.
IMPURE_CALLS = {
    *("open", "print", "input", "breakpoint"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("uuid.uuid1", "uuid.uuid4", "uuid.uuid6", "uuid.uuid7", "uuid1", "uuid4", "uuid7"),
    *("Path.cwd", "Path.home", "gc.collect", "atexit.register"),
}
# Methods of a pathlib.Path that reach the disk.
IMPURE_METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes"),
    *("mkdir", "unlink", "touch", "iterdir"),
}
PARTS_MAX = 5
WHOLE = (CompiledStateGraph, HostedSaver)
"""Classes to derive others from: each counts as one part of those, whatever it is made of."""

OUTER = {"api", "sessions", "web", "prebuilt", "studio"}
OF_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
"""Public methods of named tuples, in spite of their names."""

WAITING = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


def layer_of(path: str) -> str:
    """The layer of a file: "actorgraph/savers/sqlite/rows.py" -> "savers"."""
    return path.split("/")[1].removesuffix(".py")


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, with its line; `from a import b` gives "a.b"."""
    for node in source.nodes(ast.Import, ast.ImportFrom, ast.Call):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                yield from ((node.lineno, f"{module}.{name.name}") for name in names)
            case ast.ImportFrom(level=dots, module=module):
                yield node.lineno, "." * dots + (module or "")
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if call_name(node).endswith(
                ("import_module", "__import__")
            ):
                yield node.lineno, name


def wrong_direction(source: Source) -> Iterator[Place]:
    """Imports of a layer that is listed later, or in the same row."""
    here = layer_of(source.path)
    for line, name in imports(source):
        if name.startswith("."):
            yield line, f"imports {name}: write the whole name"
        elif name.split(".")[0] == "actorgraph":
            # `from actorgraph import X` is the root package, unless X is a layer.
            parts = [*name.split("."), "__init__"]
            there = parts[1] if parts[1] in RANK else "__init__"
            if there != here and RANK[there] >= RANK[here]:
                yield line, f"{here} imports {name}, but {there} stands after or beside {here}"


def room_of(path: str) -> str:
    """The room of a file: "actorgraph/api/savers/wrappers/audit.py" -> "savers/wrappers"."""
    return "/".join(path.split("/")[2:-1])


def wrong_room(source: Source) -> Iterator[Place]:
    """Imports of a room of the same package that comes later, or in the same row."""
    package = layer_of(source.path)
    ranks = {room: rank for rank, row in enumerate(ROOMS[package]) for room in row}
    here = room_of(source.path)
    for line, name in imports(source):
        parts = name.split(".")
        if parts[:2] != ["actorgraph", package]:
            continue
        below = ["/".join(parts[2:end]) for end in range(len(parts), 1, -1)]
        there = next(room for room in below if room in ranks)
        if there != here and ranks[there] >= ranks[here]:
            yield line, f"{package}/{here} imports {name}, but {there} comes after or beside {here}"


def impure(source: Source) -> Iterator[Place]:
    """Find code that makes a pure file wait, or depend on anything but its arguments."""
    for line, name in imports(source):
        if name.split(".")[0] in IMPURE_MODULES:
            yield line, f"imports {name}"
    for node in source.nodes(*WAITING):
        yield node.lineno, f"waits: {type(node).__name__}"
    for node in source.nodes(ast.comprehension):
        if node.is_async:
            yield node.target.lineno, "waits: async comprehension"
    for node in source.nodes(ast.Call):
        name = call_name(node)
        last_two = ".".join(name.split(".")[-2:])
        if {name, last_two} & IMPURE_CALLS or (
            "." in name and name.rsplit(".", 1)[1] in IMPURE_METHODS
        ):
            yield node.lineno, f"calls {name}"


def parts_of(cls: type) -> list[str]:
    """The bases of ours that a class is made of, without those of a base that is whole.

    Classes that only hold type parameters have no method to look for.
    """
    whole = [base for base in cls.__mro__[1:] if base in WHOLE]
    counted = {part for base in whole for part in base.__mro__[1:]} | {GraphTypes, BuilderTypes}
    return [base.__name__ for base in cls.__mro__[1:] if is_ours(base) and base not in counted]


def classes() -> set[type]:
    """Every class of the package without an underscore, wherever a program may get it from."""
    found: set[type] = set()
    for place in pkgutil.walk_packages(actorgraph.__path__, "actorgraph."):
        if not place.name.endswith("__main__"):
            named = vars(import_module(place.name)).items()
            found |= {one for name, one in named if isinstance(one, type) and name[0] != "_"}
    return set(filter(is_ours, found))


def reaches_in(source: Source) -> Iterator[Place]:
    """Private names of an object that is neither `self` nor the class of the method."""
    for node in source.nodes(ast.Attribute):
        name, of = node.attr, ast.unparse(node.value)
        private = name == "__dict__" or (name.startswith("_") and not name.startswith("__"))
        if private and name not in OF_TUPLES and of not in ("self", "cls", "super()"):
            yield node.lineno, f"{of}.{name}: make it a method with a plain name, or a function"


def looks_up_langgraph(source: Source) -> Iterator[Place]:
    """Modules of LangGraph taken out of `sys.modules`."""
    subscripts = [(n, n.value, n.slice) for n in source.nodes(ast.Subscript)]
    gets = [
        (call, call.func.value, call.args[0])
        for call in source.nodes(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and call.args
    ]
    for node, of, key in (*subscripts, *gets):
        name = ast.unparse(key).strip("'")
        is_theirs = name == "LANGGRAPH_TYPES" or name.split(".")[0] == "langgraph"
        if is_theirs and ast.unparse(of) in ("sys.modules", "modules"):
            yield node.lineno, f"{name}: call langgraph_module(), which knows the compat layer"


OTHER_LIBRARIES = re.compile(
    r"(langchain|langchain_core|langgraph|langgraph_sdk|langsmith)((\.\w+)+(:\w*)?|\.)?"
)
"""Names of modules, their beginnings, and names of classes in them as codecs write them."""
WAYS_TO_LIBRARIES = {"bridges", "compat"}
READERS_OF_PROGRAMS = {"cli", "migrate"}
"""Their subject is a program's text, or a database, of LangGraph's: names of modules are data."""
WORDS = {
    "runtime/task/messages.py": "a value of metadata that LangSmith knows",
    "stores/operations.py": "a label that LangGraph reserves",
    "testing/store_checks.py": "the same label",
    "web/endpoints/meta.py": "a flag of a server's features",
}
"""Files in which such a name means something else -> its meaning."""


def names_library(source: Source) -> Iterator[Place]:
    """Modules of other libraries in imports and texts; docstrings may speak of them."""
    for line, name in imports(source):
        if OTHER_LIBRARIES.match(name):
            yield line, f"imports {name}: call a hook of `bridging`, with a function in bridges/"
    for node in source.nodes(ast.Constant):
        if isinstance(node.value, str) and OTHER_LIBRARIES.fullmatch(node.value):
            yield node.lineno, f"{node.value!r}: call a hook, or read an attribute, of `bridging`"


class TestDirection:
    def test_every_file_belongs_to_a_known_layer(self):
        """
        A new package takes its place in ORDER before it can be imported.
        """
        unknown = {f.path for f in sources("actorgraph") if layer_of(f.path) not in RANK}

        assert unknown == set()
        assert sources("actorgraph"), f"no files below {ROOT / 'actorgraph'}"

    def test_imports_point_one_way(self):
        """
        No file imports a layer that is listed after or beside its own.
        """
        known = [f for f in sources("actorgraph") if layer_of(f.path) in RANK]

        hold(wrong_direction, known)

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("values/a.py", "import actorgraph.channels.base"),
            ("errors.py", "from actorgraph.values.ids import TaskId"),
            ("runtime/a.py", "from actorgraph.savers.memory.saver import InMemorySaver"),
            ("savers/a.py", "from actorgraph.runtime.mailbox import Inbox"),
            ("api/a.py", "from actorgraph import StateGraph"),
            ("api/a.py", "import actorgraph"),
            ("cli/a.py", "from actorgraph import compat"),
            ("plan/a.py", "from . import graph"),
            ("plan/a.py", "def f():\n    from actorgraph.superstep import advance"),
            ("plan/a.py", "if TYPE_CHECKING:\n    import actorgraph.api"),
            ("plan/a.py", "importlib.import_module('actorgraph.savers.sqlite')"),
        ],
    )
    def test_a_wrong_import_is_found(self, path, text):
        """
        The rule sees upward, sideways, deferred, type-only and dynamic imports.
        """
        assert list(wrong_direction(snippet(text, f"actorgraph/{path}")))

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("savers/sqlite/saver.py", "from actorgraph.savers.rows import Row"),
            ("savers/a.py", "from actorgraph import errors"),
            ("api/a.py", "from actorgraph.runtime.system import ActorSystem\nimport anyio"),
            ("__init__.py", "from actorgraph.api.graph.compiled import CompiledStateGraph"),
            ("cli/a.py", "from actorgraph.api.graph.compiled import CompiledStateGraph"),
        ],
    )
    def test_a_right_import_is_not_found(self, path, text):
        """
        Downward imports, imports inside a layer, and foreign packages are fine.
        """
        assert list(wrong_direction(snippet(text, f"actorgraph/{path}"))) == []


class TestRooms:
    def test_every_room_has_a_place(self):
        """
        A new folder in a package with rooms takes its place in ROOMS before it can be imported.
        """
        rooms = {package: set[str]().union(*rows) for package, rows in ROOMS.items()}
        known = [f.path for f in sources("actorgraph") if layer_of(f.path) in ROOMS]

        assert known
        assert [p for p in known if room_of(p) not in rooms[layer_of(p)]] == []

    def test_imports_between_rooms_point_one_way(self):
        """
        No file imports a room of its package that comes after or beside its own.
        """
        hold(wrong_room, [f for f in sources("actorgraph") if layer_of(f.path) in ROOMS])

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("runtime/mailbox.py", "from actorgraph.runtime.run.launch import Launch"),
            ("runtime/saver/a.py", "from actorgraph.runtime.task import scope"),
            ("api/savers/a.py", "def f():\n    from actorgraph.api.savers.wrappers.audit import X"),
            ("api/graph/a.py", "from actorgraph.api.system.system import ActorSystem"),
            ("savers/sqlite/a.py", "from actorgraph.savers.postgres.saver import X"),
        ],
    )
    def test_a_wrong_import_is_found(self, path, text):
        """
        The rule sees upward and sideways imports between rooms.
        """
        assert list(wrong_room(snippet(text, f"actorgraph/{path}")))

    def test_no_files_import_one_another_in_a_circle(self):
        """
        Each file can be read after those that it imports: no circle exists.
        """
        tree = Tree.read(ROOT / "actorgraph")

        assert circles(imports_of(tree)) == []

    def test_a_circle_is_found(self):
        """
        Three files in a circle are one group, whatever else they import.
        """
        texts = {
            "a.py": "from actorgraph.b import x",
            "b.py": "def f():\n    from actorgraph import c",
            "c.py": "from actorgraph.a import y\nfrom actorgraph.d import z",
            "d.py": "",
        }

        assert circles(imports_of(Tree(texts))) == [
            ["actorgraph.a", "actorgraph.b", "actorgraph.c"]
        ]


class TestPurity:
    def test_the_core_is_pure(self):
        """
        values, channels, plan, superstep and rules neither wait nor touch clock, chance or world.

        A run can be replayed only because the same state and event always give the same answer.
        """
        core = [f for f in sources("actorgraph") if layer_of(f.path) in PURE]

        hold(impure, core)

    @pytest.mark.parametrize(
        "text",
        [
            "import time",
            "from os import environ",
            "def f():\n    import random",
            "import anyio.to_thread",
            "async def f(): ...",
            "x = [y async for y in z]",
            "import datetime\nnow = datetime.datetime.now()",
            "from datetime import datetime\nnow = datetime.now()",
            "import uuid\nx = uuid.uuid4()",
            "from uuid import uuid4\nx = uuid4()",
            "from pathlib import Path\nx = Path('a').read_text()",
            "open('a')",
            "print('a')",
        ],
    )
    def test_an_impure_file_is_found(self, text):
        """
        The rule sees waiting, clocks, chance, and I/O.
        """
        assert list(impure(snippet(text)))

    @pytest.mark.parametrize(
        "text",
        [
            "import inspect\nx = inspect.iscoroutinefunction(f)",
            "from uuid import UUID\nx = UUID(int=1)",
            "from datetime import datetime, timedelta\nx = datetime.fromisoformat('2026-01-01')",
            "from pathlib import PurePath\nx = PurePath('a').name",
            "def uuid6(ticks, step, node): ...\nx = uuid6(1, 2, 3)",
        ],
    )
    def test_a_pure_file_is_not_found(self, text):
        """
        Types of values, and functions of their arguments, are fine.
        """
        assert list(impure(snippet(text))) == []


class TestLangGraphModules:
    def test_they_are_found_by_one_function(self):
        """
        `langgraph_module` alone looks LangGraph's modules up: it knows those of the compat layer,
        which other code would take for LangGraph's.
        """
        hold(looks_up_langgraph, sources("actorgraph"))

    @pytest.mark.parametrize(
        "text",
        [
            "import sys\nx = sys.modules['langgraph.types']",
            "import sys\nx = sys.modules.get('langgraph.graph', None)",
            "import sys\nx = sys.modules[LANGGRAPH_TYPES]",
            "from sys import modules\nx = modules['langgraph']",
        ],
    )
    def test_another_way_is_found(self, text):
        """
        By a text or by the constant, with a default or without.
        """
        assert list(looks_up_langgraph(snippet(text)))

    @pytest.mark.parametrize(
        "text",
        [
            "x = LANGGRAPH_TYPES in sys.modules",
            "x = sys.modules['langchain_core']",
            "x = langgraph_module('langgraph.types')",
        ],
    )
    def test_a_fine_line_is_not_found(self, text):
        """
        To see that a program has neither library costs nothing and decides nothing.
        """
        assert list(looks_up_langgraph(snippet(text))) == []


class TestBridges:
    def test_the_core_names_no_other_library(self):
        """
        Only bridges/ and compat/ know modules of LangGraph and LangChain, and the tools that read
        programs and databases of LangGraph's.
        """
        known = WAYS_TO_LIBRARIES | READERS_OF_PROGRAMS
        core = [f for f in sources("actorgraph") if layer_of(f.path) not in known]

        hold(names_library, [f for f in core if f.path.partition("/")[2] not in WORDS])

    @pytest.mark.parametrize("path", WORDS)
    def test_each_exception_is_needed(self, path):
        """
        A file that has lost its word loses its place in the list.
        """
        file = next(f for f in sources("actorgraph") if f.path == f"actorgraph/{path}")

        assert [what for _, what in names_library(file) if not what.startswith("imports")]

    @pytest.mark.parametrize(
        "text",
        [
            "def f():\n    from langchain_core.messages import AIMessage",
            "if TYPE_CHECKING:\n    import langgraph.types",
            "import_module('langchain.chat_models')",
            "x = 'langchain_core' in sys.modules",
            "x = kind.__module__.startswith('langgraph.')",
            "NAMES = {'langgraph.types:Send'}",
        ],
    )
    def test_a_name_is_found(self, text):
        """
        Late and dynamic imports, looks into `sys.modules`, and parts of names.
        """
        assert list(names_library(snippet(text)))

    @pytest.mark.parametrize(
        "text",
        [
            '"""As langgraph.types.Send does."""',
            "KEY = 'langgraph_node'",
            "TAG = 'langsmith:hidden'",
            "raise TypeError('a graph of LangGraph needs langchain-core')",
            "from actorgraph.api.streams.langchain_events import MODES",
        ],
    )
    def test_other_words_are_fine(self, text):
        """
        Docstrings, sentences, keys of metadata, and names of our own.
        """
        assert list(names_library(snippet(text))) == []


class TestParts:
    def test_a_public_class_has_few_parts(self):
        """
        At most five bases: to know what a method does, a reader looks into few files.

        A tower of mixins looks like small files, and hides which class calls whose methods.
        """
        parts = {cls.__qualname__: parts_of(cls) for cls in classes()}

        assert parts["HostedSaver"]
        assert {name: some for name, some in parts.items() if len(some) > PARTS_MAX} == {}

    def test_a_tower_of_mixins_is_found(self):
        """
        Six bases are too many, also if each has only one; a whole class counts once.
        """
        tower: type = object
        for name in "abcdefg":
            tower = type(name, (tower,), {"__module__": "actorgraph.made_up"})
        saver = type("Saver", (HostedSaver,), {"__module__": "actorgraph.made_up"})

        assert len(parts_of(tower)) == PARTS_MAX + 1
        assert parts_of(saver) == ["HostedSaver"]

    def test_no_object_reaches_into_another(self):
        """
        A method that a peer needs has a plain name, so that a private one can be changed
        after a look at its own class.
        """
        hold(reaches_in, [f for f in sources("actorgraph") if layer_of(f.path) in OUTER])

    @pytest.mark.parametrize(
        "text",
        [
            "graph._launch()",
            "cast('Any', graph)._codec  # noqa: SLF001 - a peer",
            "self._graph._codec = codec",
            "source.__dict__.get('a')",
        ],
    )
    def test_a_reach_is_found(self, text):
        """
        Also through a cast, a comment that allows it, or an attribute of one's own.
        """
        assert list(reaches_in(snippet(text)))

    @pytest.mark.parametrize(
        "text",
        ["self._codec", "cls._made", "super()._open()", "task._replace(a=1)", "kind.__name__"],
    )
    def test_a_name_of_its_own_is_not_found(self, text):
        """
        An object's own names, and those that only look private, are fine.
        """
        assert list(reaches_in(snippet(text))) == []

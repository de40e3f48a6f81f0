"""Databases by path or URL, graphs by `module:graph` or `file.py:graph`."""

import importlib.util
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.output import without_password
from actorgraph.codec import Codec
from actorgraph.errors import RunningLoopError, UnknownTypeError
from actorgraph.graph import CompiledStateGraph, StateGraph
from actorgraph.internals import adapt_checkpointer, extension_of, is_foreign
from actorgraph.ports import Saver

if TYPE_CHECKING:
    from actorgraph.cli.thread_reader import ThreadReader

POSTGRES = ("postgresql://", "postgres://")
SQLITE_HEADER = b"SQLite format 3\x00"


def is_postgres(place: str) -> bool:
    """Whether a place is the URL of a PostgreSQL database."""
    return place.startswith(POSTGRES)


def database_named(place: str | None) -> str:
    """Return the database that --db or ACTORGRAPH_DB names.

    Raises:
        UsageError: neither does.
    """
    if place:
        return place
    raise UsageError(
        "no database is named", do="add --db runs.db, or set the environment variable ACTORGRAPH_DB"
    )


def saver_at(place: str, *, read_only: bool = True, create: bool = True, codec: Any = None) -> Any:
    """Make a saver for a database; the caller opens it.

    A folder, or a new path that ends in "/" or ".jsonl", has JSON lines; `postgresql://...` is a
    PostgreSQL database, whose tables may be in another schema (`?schema=name`); `module:saver` and
    `file.py:saver` name a saver of a program, or a function that makes one; any other path is a
    SQLite file.

    Args:
        read_only: refuse a place that doesn't exist, and every write.
        create: whether a place that doesn't exist may be made, unless it is only read.
        codec: as of savers.
    Raises:
        UsageError: the place doesn't exist, or isn't a database.
    """
    from actorgraph.checkpoints import JsonlSaver, PostgresSaver, SqliteSaver

    if is_postgres(place):
        url, schema = schema_of(place)
        return PostgresSaver(url, schema=schema, read_only=read_only, codec=codec)
    if place.startswith("file:"):
        raise UsageError(
            f"--db takes a path, not an address of SQLite's: {place!r}",
            do="name the file itself; commands that only look open it for reading",
        )
    if "://" in place:
        raise UsageError(
            f"--db {without_password(place)!r} is not a known kind of database",
            do="name a SQLite file, a folder of JSON lines, postgresql://..., or module:saver",
        )
    if is_saver_name(place):
        return saver_named(place)
    path = Path(place)
    if path.is_dir() or (not path.exists() and place.endswith(("/", ".jsonl"))):
        _must_exist(path, needed=read_only or not create)
        return JsonlSaver(path, codec=codec)
    _must_exist(path, needed=read_only or not create)
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(SQLITE_HEADER)) != SQLITE_HEADER:
                raise UsageError(
                    f"{place!r} is not a SQLite database",
                    do="name the file that SqliteSaver(...) was given, or a folder of JSON lines",
                )
    return SqliteSaver(path, read_only=read_only, codec=codec)


def is_saver_name(place: str) -> bool:
    """Whether a place is `module:saver` or `file.py:saver`, and no path that exists."""
    module, _, name = place.rpartition(":")
    named = module.endswith(".py") or all(part.isidentifier() for part in module.split("."))
    # One letter before the colon is a drive of Windows.
    return named and len(module) > 1 and name.isidentifier() and not Path(place).exists()


def saver_named(name: str) -> Any:
    """Import a saver of a program; it keeps its own codec.

    Raises:
        UsageError: the name doesn't exist, or is neither a saver nor a function without arguments
            that returns one.
    """
    found, _ = load_object(name)
    if isinstance(found, type) or not (isinstance(found, Saver) or is_foreign(found)):
        found = found() if callable(found) else found
    if not (isinstance(found, Saver) or is_foreign(found)):
        raise UsageError(
            f"{name!r} is {type(found).__name__}, not a saver",
            do="name a saver, or a function or class that makes one without arguments",
        )
    return adapt_checkpointer(found)


def schema_of(url: str) -> tuple[str, str]:
    """Take `?schema=` out of an address: it is not one of PostgreSQL's parameters."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(given).get("schema") or "actorgraph"
    query = urlencode([(key, value) for key, value in given if key != "schema"])
    return (urlunsplit(parts._replace(query=query)) if given else url), schema


def _must_exist(path: Path, *, needed: bool) -> None:
    if needed and not path.exists():
        raise UsageError(
            f"database {str(path)!r} doesn't exist",
            do="look at the path; `actorgraph run` with --db makes a new one",
        )


@asynccontextmanager
async def open_saver(
    place: str, *, read_only: bool = True, create: bool = True, codec: Any = None
) -> AsyncGenerator[Any]:
    """Open the saver of a database; see `saver_at`."""
    async with saver_at(place, read_only=read_only, create=create, codec=codec) as saver:
        yield saver


def codec_in(graph: CompiledStateGraph) -> Codec | None:
    """Return the codec of a program: that of the saver which its graph was compiled with.

    It has the program's converters and keys, without which a database of the program can't be
    read, and would get values that its own codec refuses. None if it has no settings of its own.
    """
    codec = getattr(graph.checkpointer, "codec", None)
    if not isinstance(codec, Codec):
        return None
    return codec if codec.types or codec.converted or codec.encodes_all else None


@asynccontextmanager
async def open_thread_place(
    db: str | None, graph: CompiledStateGraph, *, read_only: bool = False, create: bool = False
) -> AsyncGenerator[CompiledStateGraph]:
    """Open a database for a graph, and return the graph over it; by default over its own saver.

    A database that is named is read and written as the graph's own saver would (`codec_in`).

    Raises:
        UsageError: no database is named, and the graph has no saver.
    """
    if db:
        codec = codec_in(graph)
        async with open_saver(db, read_only=read_only, create=create, codec=codec) as saver:
            yield graph.copy(update={"checkpointer": saver})
        return
    own: Any = graph.checkpointer
    if not hasattr(own, "alist_threads"):
        raise UsageError(
            f"graph {graph.name!r} has no saver, and no database is named",
            do="add --db runs.db, or set the environment variable ACTORGRAPH_DB",
        )
    async with own:
        yield graph


@asynccontextmanager
async def open_graphs(
    db: str | None, graphs: Mapping[str, CompiledStateGraph]
) -> AsyncGenerator[tuple[dict[str, CompiledStateGraph], Any]]:
    """Open a database for reading, for several graphs; by default the first one's own saver.

    Returns: the graphs over it, by name, and its saver.
    Raises:
        UsageError: no database is named, and the graph has no saver.
    """
    first = next(iter(graphs.values()))
    async with open_thread_place(db, first, read_only=True) as bound:
        saver = bound.checkpointer
        over = {name: graph.copy(update={"checkpointer": saver}) for name, graph in graphs.items()}
        yield over, saver


@asynccontextmanager
async def open_reader(db: str | None, graph: str | None) -> AsyncGenerator["ThreadReader"]:
    """Open a database for reading; with a graph, threads are shown as the graph knows them."""
    from actorgraph.cli.thread_reader import ThreadReader

    if graph:
        async with open_thread_place(db, load_graph(graph), read_only=True) as bound:
            yield ThreadReader(bound.checkpointer, bound)
    else:
        with advised_to_name_graph():
            async with open_saver(database_named(db)) as saver:
                yield ThreadReader(saver)


@contextmanager
def advised_to_name_graph() -> Generator[None]:
    """Advise a command without a graph, which doesn't know the type of a value, to name one."""
    try:
        yield
    except UnknownTypeError as error:
        error.do = "add --graph app.py:graph, the program's: its types and its codec count here"
        raise


@asynccontextmanager
async def open_program_saver(
    db: str, graph: str | None, *, read_only: bool = True
) -> AsyncGenerator[tuple[Any, Codec]]:
    """Open a database as the saver of a program would, if its graph is named.

    Returns: the saver, and a codec of plain JSON text with the program's types and converters.
    """
    if graph is None:
        with advised_to_name_graph():
            async with open_saver(db, read_only=read_only) as saver:
                yield saver, Codec(form="json")
        return
    program = load_graph(graph)
    async with open_saver(db, read_only=read_only, codec=codec_in(program)) as saver:
        known = (*saver.codec.types, *program.stored_types)  # the latter declared by `compile`
        types = [kind for kind in known if extension_of(kind) is not None]
        yield saver, Codec(types, converters=saver.codec.converted, form="json")


def load_object(name: str) -> tuple[Any, str]:
    """Import what `module:name` or `file.py:name` names.

    The name may have dots; without it all of the module is returned.

    Returns: the object, and its name as it was given.
    Raises:
        UsageError: the module or the name doesn't exist, or the module runs a graph by itself.
            Other errors of the module pass.
    """
    place, _, attribute = name.rpartition(":") if _has_attribute(name) else (name, "", "")
    try:
        found: Any = _module_of(place)
    except RunningLoopError as error:
        raise UsageError(
            f"{place!r} runs a graph while it is being imported",
            do="put that part of the file under `if __name__ == '__main__':`",
        ) from error
    for part in filter(None, attribute.split(".")):
        if not hasattr(found, part):
            raise UsageError(
                f"{place!r} has no {attribute!r}", do=f"name one of {_names_of(found)}"
            )
        found = getattr(found, part)
    return found, name


def graph_named(name: str | None) -> str:
    """Return the graph that --graph or ACTORGRAPH_GRAPH names.

    Raises:
        UsageError: neither does.
    """
    if name:
        return name
    raise UsageError(
        "no graph is named",
        do="add --graph app.py:graph, or set the environment variable ACTORGRAPH_GRAPH",
    )


def load_graph(name: str | None) -> CompiledStateGraph:
    """Import a graph: a compiled one, a StateGraph (compiled here), or a function that makes one.

    Without `:graph` the module's only graph is taken.

    Raises:
        UsageError: it isn't named, or isn't a graph.
    """
    name = graph_named(name)
    found, _ = load_object(name)
    if not _has_attribute(name):
        graphs = _graphs_of(found)
        if len(graphs) != 1:
            names = ", ".join(f"{name}:{one}" for one in graphs) or "a module that has a graph"
            raise UsageError(f"{name!r} has {len(graphs)} graphs", do=f"name one of {names}")
        found = next(iter(graphs.values()))
    return _as_graph(found, name)


def load_graphs(name: str) -> tuple[dict[str, CompiledStateGraph], object]:
    """Import the graphs of a program, and the object that has them.

    That is an ActorSystem, an application that serves some, a dict of graphs, or one graph (see
    `load_graph`).

    Returns: name -> graph, and the object.
    Raises:
        UsageError: it isn't one of these, or has no graphs.
    """
    from actorgraph.cli.doctor.served_facts import systems_in

    if _has_attribute(name):
        found, _ = load_object(name)
        served = {key: one for system in systems_in(found) for key, one in system.graphs.items()}
        given = served or getattr(found, "graphs", found)
        if isinstance(given, Mapping) and given:
            return {str(key): _as_graph(one, name) for key, one in given.items()}, found
    graph = load_graph(name)
    return {graph.plan.name: graph}, graph


def _as_graph(found: Any, name: str) -> CompiledStateGraph:
    if isinstance(found, StateGraph):
        return found.compile()
    if isinstance(found, CompiledStateGraph):
        return found
    if isinstance(found, Callable) and not isinstance(found, type):
        return _as_graph(found(), f"{name}()")
    raise UsageError(
        f"{name!r} is {type(found).__name__}, not a graph",
        do="name a compiled graph, a StateGraph, or a function without arguments that returns one",
    )


def _graphs_of(module: Any) -> dict[str, Any]:
    return {
        key: one
        for key, one in vars(module).items()
        if isinstance(one, CompiledStateGraph) and not key.startswith("_")
    }


def _names_of(found: Any) -> str:
    names = _graphs_of(found) if hasattr(found, "__dict__") else {}
    return ", ".join(names) or "the names in it"


def _has_attribute(name: str) -> bool:
    """Whether a text names something in a module; the colon of a Windows drive doesn't count."""
    return ":" in name[2:]


def _module_of(place: str) -> Any:
    if place.endswith(".py") or "/" in place:
        return _module_of_file(Path(place))
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.util.find_spec(place)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(
            f"module {place!r} can't be found",
            do="run the command where `python -c 'import ...'` finds it, or name a file: app.py",
        )
    return import_module(place)


def _module_of_file(path: Path) -> Any:
    if not path.is_file():
        raise UsageError(f"file {str(path)!r} doesn't exist", do="look at the path")
    folder = str(path.parent.resolve())
    if folder not in sys.path:  # as for a script: its imports find the files beside it
        sys.path.insert(0, folder)
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    if known is None and path.stem.isidentifier():
        return import_module(path.stem)
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{abs(hash(folder))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

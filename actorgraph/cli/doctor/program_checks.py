"""Checks of a program's graphs and modules. Pure: facts in, findings out."""

from collections.abc import Iterator, Sequence

from actorgraph.cli.doctor.diagnosis import Diagnosis, Severity
from actorgraph.cli.doctor.facts import (
    CallFact,
    Examined,
    GraphFacts,
    InputFacts,
    NodeFacts,
    ProgramFacts,
)
from actorgraph.cli.doctor.known_calls import (
    BLOCKING,
    EFFECTS,
    FILES,
    backend_of,
    is_interrupt,
    known,
)
from actorgraph.errors import did_you_mean


def check_import(facts: Examined) -> Iterator[Diagnosis]:
    """A program that can't be imported, unless a missing package is the reason."""
    program = facts.program
    if program is not None and program.error and not program.missing:
        yield Diagnosis(
            "program.not-importable",
            "error",
            program.name,
            f"{program.name} can't be imported: {program.error}",
            "start doctor in the program's folder, and name MODULE:NAME as its imports do",
        )


def check_blocking_calls(facts: Examined) -> Iterator[Diagnosis]:
    """Calls in async nodes that block the event loop."""
    for node in _nodes(facts):
        for call in node.calls:
            row = None if call.awaits else known(call, BLOCKING)
            if row is not None:
                yield Diagnosis(
                    "node.blocking-call",
                    "warning",
                    _node(node),
                    f"the async node {node.name!r} calls {_call(call)}, and no other run of the "
                    "process goes on until it returns",
                    row.do,
                    call.file,
                    call.line,
                )


def check_file_calls(facts: Examined) -> Iterator[Diagnosis]:
    """Files that async nodes read or write in the event loop's thread."""
    for node in _nodes(facts):
        for call in node.calls:
            row = None if call.awaits else known(call, FILES)
            if row is not None:
                yield Diagnosis(
                    "node.file-call",
                    "note",
                    _node(node),
                    f"the async node {node.name!r} calls {_call(call)} in the event loop's thread; "
                    "a large file, or one on a slow disk, stops all runs meanwhile",
                    row.do,
                    call.file,
                    call.line,
                )


def check_backend(facts: Examined) -> Iterator[Diagnosis]:
    """Calls of one backend in nodes that run on the other, or beside calls of the other."""
    used: dict[str, CallFact] = {}
    for node in _nodes(facts):
        for call in node.calls:
            needs = backend_of(call)
            if needs is not None:
                used.setdefault(needs, call)
    for node in _nodes(facts):
        for call in node.calls:
            needs = backend_of(call)
            if needs is None:
                continue
            if facts.backend is not None and needs != facts.backend:
                why = f"the program runs on {facts.backend}"
            elif facts.backend is None and len(used) > 1 and needs == "trio":
                other = used["asyncio"]
                why = f"line {other.line} of {other.file} calls {_called(other)}, of asyncio"
            else:
                continue
            yield Diagnosis(
                "node.backend-mismatch",
                "error",
                _node(node),
                f"the node {node.name!r} calls {_call(call)}, which works on {needs} only, and "
                f"{why}",
                "use anyio's function of that purpose, which works on both",
                call.file,
                call.line,
            )


def check_returned_keys(facts: Examined) -> Iterator[Diagnosis]:
    """Keys in returned dicts that the graph's state doesn't have."""
    for graph in _graphs(facts):
        for node in graph.nodes:
            for found in () if node.bare else node.returned:
                if found.key in node.writes:
                    continue
                effect = "the run fails" if graph.strict else "the value is dropped, with a warning"
                near = did_you_mean(found.key, sorted(node.writes))
                yield Diagnosis(
                    "node.unknown-key",
                    "error" if graph.strict else "warning",
                    _node(node),
                    f"the node {node.name!r} returns {found.key!r}, which isn't a key of its "
                    f"state; {effect}",
                    f"{near}; or add {found.key!r} to the state's class",
                    found.file,
                    found.line,
                )


def check_wiring(facts: Examined) -> Iterator[Diagnosis]:
    """Rows of `topology()["report"]`."""
    for graph in _graphs(facts):
        for row in graph.report:
            code = "graph." + row["code"].replace("_", "-")
            yield Diagnosis(
                code,
                "note" if row["code"] == "open_route" else "warning",
                f"{graph.name}.{row['node']}",
                f"{row['node']!r} of graph {graph.name!r}: {row['what']}",
                row["do"],
            )


def check_pauses(facts: Examined) -> Iterator[Diagnosis]:
    """Graphs that pause, and have no saver from which they could go on."""
    for graph in _graphs(facts):
        if graph.has_saver:
            continue
        do = "compile(checkpointer=SqliteSaver('runs.db')), and pass a thread_id with each call"
        # `actorgraph run --db` brings a saver, and so may the program's own main part.
        level: Severity = "error" if facts.database is None else "note"
        for node in graph.nodes:
            for call in filter(is_interrupt, (*node.calls, *node.plain_calls)):
                text = f"the node {node.name!r} calls interrupt(), and the graph has no saver"
                yield Diagnosis(
                    "graph.no-saver", level, _node(node), text, do, call.file, call.line
                )
        if graph.pauses:
            names = ", ".join(map(repr, graph.pauses))
            text = f"the graph pauses at {names}, and has no saver from which it could go on"
            yield Diagnosis("graph.no-saver", level, graph.name, text, do)


def check_exit(facts: Examined) -> Iterator[Diagnosis]:
    """Runs with durability "exit" whose nodes act outside, or which pause."""
    for graph in _graphs(facts):
        places = _exits(facts, graph)
        if not places:
            continue
        calls = [(n, c) for n in graph.nodes for c in (*n.calls, *n.plain_calls)]
        for node, call in calls:
            if known(call, EFFECTS) is not None:
                yield Diagnosis(
                    "graph.durability-exit",
                    "warning",
                    _node(node),
                    f"the node {node.name!r} calls {_call(call)}, and with durability='exit' "
                    f"({places}) a crash of the process repeats it: nothing is stored before the "
                    "run ends",
                    'use durability="async" or "sync", or give the call a key that makes '
                    "repeating it harmless",
                    call.file,
                    call.line,
                )
        for node in dict.fromkeys(node.name for node, call in calls if is_interrupt(call)):
            yield Diagnosis(
                "graph.durability-exit",
                "note",
                f"{graph.name}.{node}",
                f"the node {node!r} calls interrupt(); with durability='exit' ({places}) the "
                "steps before it have one checkpoint, so that none of them can be returned to",
                'use durability="async" or "sync" for a history of each step',
            )


def _exits(facts: Examined, graph: GraphFacts) -> str:
    """Return where durability "exit" is chosen; "" if it isn't."""
    if graph.durability == "exit":
        return f"the default of graph {graph.name!r}"
    modules = facts.program.modules if facts.program else ()
    return ", ".join(f"{m.file}:{line}" for m in modules for line in m.exits)


def check_types(facts: Examined) -> Iterator[Diagnosis]:
    """Types of the state whose values can't be stored."""
    for graph in _graphs(facts):
        for found in graph.unstorable if graph.has_saver else ():
            yield Diagnosis(
                "state.unstorable-type",
                "error",
                found.path,
                f"{found.path} of graph {graph.name!r} has the type {found.name}, whose values "
                "can't be stored",
                "make it a dataclass, a pydantic model, a msgspec.Struct or plain data; or "
                "annotate the key with UntrackedValue, which keeps it out of checkpoints",
            )


def check_input(facts: Examined) -> Iterator[Diagnosis]:
    """Keys and values of the input."""
    given = facts.given
    if given is None:
        return
    yield from (_unknown_input(given, key) for key in given.unknown)
    for path, kind in given.unstorable:
        yield Diagnosis(
            "input.unstorable-value",
            "error",
            path,
            f"{path} of the input has the type {kind}, whose values can't be stored",
            "pass plain data, a dataclass, a pydantic model or a msgspec.Struct",
        )


def _unknown_input(given: InputFacts, key: str) -> Diagnosis:
    return Diagnosis(
        "input.unknown-key",
        "warning",
        key,
        f"the input has {key!r}, which isn't an input key of graph {given.graph!r}",
        did_you_mean(key, given.keys),
    )


def check_extras(facts: Examined) -> Iterator[Diagnosis]:
    """Packages that an import or an address needs, and that aren't installed."""
    program, database = facts.program, facts.database
    if program is not None and program.missing:
        yield missing_package(program.missing, program.name, program.error)
    if database is not None and database.missing:
        yield missing_package(database.missing, database.place, database.error)
    for module in program.modules if program else ():
        for name, line in module.imports:
            package = needed_package(name)
            if package and package not in _installed(program):
                yield missing_package(package, name, f"{name} needs it", module.file, line)
        for scheme, line in module.addresses:
            package = ADDRESSES.get(scheme)
            if package and package not in _installed(program):
                text = f"the address {scheme}://... needs it"
                yield missing_package(package, f"{scheme}://", text, module.file, line)


def _installed(program: ProgramFacts | None) -> frozenset[str]:
    return frozenset() if program is None else program.installed


def missing_package(
    package: str, culprit: str, why: str, file: str = "", line: int = 0
) -> Diagnosis:
    """Make the finding of a package that isn't installed."""
    extra = EXTRAS.get(package)
    do = f"pip install 'actorgraph[{extra}]'" if extra else f"pip install {package}"
    text = f"the package {package} isn't installed: {why}"
    return Diagnosis("extra.missing", "error", culprit, text, do, file, line)


EXTRAS: dict[str, str] = {
    "trio": "trio",
    "pydantic": "pydantic",
    "langchain_core": "langchain",
    "PIL": "drawing",
    "cryptography": "encryption",
    "psycopg": "postgres",
    "numpy": "vectors",
    "xxhash": "migrate",
    "prometheus_client": "metrics",
    "opentelemetry": "otel",
    "pgqueuer": "pgqueuer",
    "nats": "nats",
    "starlette": "web",
    "cronsim": "web",
    "httpx": "web",
    "hypercorn": "serve",
    "jinja2": "studio",
    "markupsafe": "studio",
}
"""Package -> the extra that installs it."""

ADDRESSES = {"postgresql": "psycopg", "postgres": "psycopg", "nats": "nats"}
"""Scheme of an address -> the package that opens it."""

_NEEDS = (
    ("actorgraph.web", "starlette"),
    ("actorgraph.studio", "jinja2"),
    ("actorgraph.dispatch.NATSDispatcher", "nats"),
    ("actorgraph.dispatch.PGQueuerDispatcher", "pgqueuer"),
    ("actorgraph.PostgresSaver", "psycopg"),
    ("actorgraph.checkpoints.PostgresSaver", "psycopg"),
    ("actorgraph.checkpoints.AsyncPostgresSaver", "psycopg"),
    ("actorgraph.stores.PostgresStore", "psycopg"),
    ("actorgraph.systems.metrics_registry", "prometheus_client"),
    ("actorgraph.migrate", "xxhash"),
)


def needed_package(name: str) -> str | None:
    """Return the package of an extra that an import needs; None if it needs none."""
    top = name.partition(".")[0]
    if top in EXTRAS:
        return top
    return next(
        (package for ours, package in _NEEDS if name == ours or name.startswith(f"{ours}.")), None
    )


def _graphs(facts: Examined) -> Sequence[GraphFacts]:
    return facts.program.graphs if facts.program else ()


def _nodes(facts: Examined) -> Iterator[NodeFacts]:
    for graph in _graphs(facts):
        yield from graph.nodes


def _node(node: NodeFacts) -> str:
    return f"{node.graph}.{node.name}"


def _called(call: CallFact) -> str:
    package = "" if call.package in ("builtins", "io") else f"{call.package}."
    return f"{package}{call.name}()"


def _call(call: CallFact) -> str:
    """Return a call as texts name it: the function, and the functions that lead to it."""
    through = "" if not call.through else f" through {' and '.join(call.through)}()"
    return _called(call) + through

"""Facts about a program, its server and its database: data that checks judge.

Gathered by `program_facts`, `served_facts` and `database_facts`. None of these classes has an open
connection or an object of the program.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from actorgraph.internals import ThreadCheckReport


@dataclass(frozen=True, slots=True)
class CallFact:
    """A call in a function of the program.

    Attributes:
        package: the first part of the module that defines the called function, such as "time".
        name: its qualified name there, such as "sleep" or "Session.get".
        kind: "class" for the construction of an object.
        awaits: whether the call returns a coroutine.
        file: of the call.
        line: of the call.
        through: the functions between the node's and the call, from the node's on.
    """

    package: str
    name: str
    kind: Literal["function", "method", "class"]
    awaits: bool
    file: str
    line: int
    through: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """The name without its class."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class KeyFact:
    """A key of a dict that a node returns, written in its source."""

    key: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, with its function and its routers.

    Attributes:
        graph: the graph's name.
        writes: the keys that it may return.
        bare: whether it returns a value instead of a dict of keys.
        calls: of its async functions, and of plain functions that those call.
        plain_calls: of its plain functions, which run in worker threads.
        returned: keys of the dicts that it returns.
    """

    graph: str
    name: str
    writes: frozenset[str] = frozenset()
    bare: bool = False
    calls: tuple[CallFact, ...] = ()
    plain_calls: tuple[CallFact, ...] = ()
    returned: tuple[KeyFact, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeFact:
    """A type in the state's annotations whose values can't be stored.

    Attributes:
        path: the key, and the way from there: "state.items[].client".
        name: the type's.
    """

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """One compiled graph.

    Attributes:
        strict: whether an unknown key is an error.
        has_saver: whether it, its parent or its system has one.
        pauses: nodes of `interrupt_before` and `interrupt_after`.
        durability: of calls that name none.
        unstorable: types of the state.
        report: rows of `topology()["report"]`.
        keys: the keys that an input may have; empty for a graph over one value.
    """

    name: str
    nodes: tuple[NodeFacts, ...] = ()
    strict: bool = False
    has_saver: bool = True
    pauses: tuple[str, ...] = ()
    durability: str = "sync"
    unstorable: tuple[TypeFact, ...] = ()
    report: tuple[Mapping[str, str], ...] = ()
    keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """The source of a module of the program.

    Attributes:
        imports: `(dotted name, line)` of each import, inside functions too.
        exits: lines of calls with durability="exit".
        addresses: `(URL scheme, line)` of texts such as "postgresql://...".
        words: attributes and names that it mentions.
    """

    file: str
    imports: tuple[tuple[str, int], ...] = ()
    exits: tuple[int, ...] = ()
    addresses: tuple[tuple[str, int], ...] = ()
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """An ActorSystem that isn't open.

    Attributes:
        busy_timeout_s: seconds that its saver waits for a lock; None if it has no such setting.
        durable: whether its saver outlives the process.
    """

    graphs: frozenset[str]
    builds: frozenset[str] = frozenset()
    lease_s: float = 15.0
    busy_timeout_s: float | None = None
    durable: bool = True


@dataclass(frozen=True, slots=True)
class ServedFacts:
    """Routes or a studio in an ASGI application.

    Attributes:
        kind: "routes" for GraphRoutes, "studio" for a Studio.
        path: where it is mounted.
        has_rules: whether it has `authorize`, or a token.
        has_rates: whether requests per second are limited.
        hosts: names under which a studio answers.
        any_origin: whether a CORS middleware allows every site.
    """

    kind: Literal["routes", "studio"]
    path: str = ""
    has_rules: bool = True
    has_rates: bool = True
    hosts: tuple[str, ...] = ()
    any_origin: bool = False


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """The program that `--app` or TARGET names.

    Attributes:
        name: "module:name".
        error: why it can't be imported; "" if it can.
        missing: the package whose absence is the reason; "" for another one.
        installed: packages that can be imported, of those that extras bring.
    """

    name: str
    error: str = ""
    missing: str = ""
    graphs: tuple[GraphFacts, ...] = ()
    modules: tuple[ModuleFacts, ...] = ()
    systems: tuple[SystemFacts, ...] = ()
    served: tuple[ServedFacts, ...] = ()
    installed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OpenRunFact:
    """An open or parked run of the database.

    Attributes:
        alive: whether the lease of its system is valid.
        waits: whether no system has had it.
        age_s: seconds since it was accepted, or since it is due.
    """

    run: str
    thread_id: str
    graph: str
    status: str
    build: str = ""
    alive: bool = False
    waits: bool = False
    age_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """A database.

    Attributes:
        place: its path or address, without a password; the class of a program's own saver.
        kind: "sqlite", "postgres", "jsonl", or "saver" for one of a program.
        error: why it can't be opened; "" if it can.
        missing: the package whose absence is the reason; "" for another one.
        do: the remedy that came with the error.
        not_writable: why it can't be written; "" if it can.
        version: of its tables; 0 for none, None if it was not read.
        known_version: the version that this library writes.
        journal: SQLite's journal mode; "" if unknown.
        filesystem: the type of the file system, such as "nfs4"; "" if unknown.
        living: systems with a valid lease.
        runs: open and parked ones.
        lengths: thread -> checkpoints, of the threads that were counted.
        oldest_s: seconds since the oldest superseded checkpoint was made; None without one.
        unread: the error of values that can't be decrypted; "" if they can.
    """

    place: str
    kind: str
    error: str = ""
    missing: str = ""
    do: str = ""
    not_writable: str = ""
    version: int | None = None
    known_version: int = 0
    journal: str = ""
    filesystem: str = ""
    living: int = 0
    runs: tuple[OpenRunFact, ...] = ()
    lengths: Mapping[str, int] = field(default_factory=dict[str, int])
    oldest_s: float | None = None
    unread: str = ""


@dataclass(frozen=True, slots=True)
class InputFacts:
    """The input of `--input`.

    Attributes:
        unknown: keys that the state doesn't have.
        unstorable: `(path, type)` of values that can't be stored.
    """

    graph: str
    unknown: tuple[str, ...] = ()
    unstorable: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examined:
    """All facts of one call of doctor.

    Attributes:
        backend: "asyncio" or "trio", if the program runs on one only.
        host: the address that the program will be served at.
        threads: the fate of the database's threads under the program's graphs; None if unknown.
    """

    program: ProgramFacts | None = None
    database: DatabaseFacts | None = None
    given: InputFacts | None = None
    backend: str | None = None
    host: str = ""
    threads: ThreadCheckReport | None = None

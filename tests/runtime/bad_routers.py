"""Routers of all kinds that may block, and a stand-in for everything that they wait for.

The routers are in `routers/blocking.txt`: text, because a linter would refuse most of it. A
client, a file, a lock, a value of the state that they ask is an object whose every use waits for
one gate, so that a test sees all of them wait at once, and lets them go.
"""

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from tests.support.gates import PATIENCE_S

FILE = Path(__file__).parent / "routers" / "blocking.txt"
ASKED = """
    aiofiles connection copy hashlib http httpx importlib json logging os pathlib pickle psycopg
    queue re requests select shelve shutil signal smtplib socket sqlite3 subprocess sys tempfile
    time urllib Path fetch session client http_client lock semaphore event condition barrier
    thread jobs simple_jobs log executor model chain lines path socket_pair pattern open input
    print breakpoint interrupt task service sessions nested_sessions mixed clients reference
""".split()  # noqa: SIM905 - shorter
"""Names of the corpus that the stand-in replaces."""


class Gate:
    """Where routers wait.

    Attributes:
        waiting: thread id of each router that has come here, by its name.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, int] = {}
        self._open = threading.Event()
        self._here = threading.local()

    def open(self) -> None:
        """Let all of them go, those that come later too."""
        self._open.set()

    def named(self, name: str, router: Callable[..., Any]) -> Callable[..., Any]:
        """Make a router that is known here by a name."""

        def route(state: Any, **extra: Any) -> Any:
            self._here.name = name
            return router(state, **extra)

        return route

    def wait(self) -> None:
        """Wait until the gate is open."""
        self.waiting[self._here.name] = threading.get_ident()
        assert self._open.wait(PATIENCE_S)


class Asked:
    """Anything: its every use waits for the gate."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __getattr__(self, name: str) -> "Asked":
        if name.startswith("__"):
            raise AttributeError(name)
        return self() if name == "text" else self

    def __call__(self, *args: Any, **named: Any) -> "Asked":
        self._gate.wait()
        return self

    def __getitem__(self, key: Any) -> "Asked":
        return self()

    def __iter__(self) -> Iterator["Asked"]:
        yield self()

    def __enter__(self) -> Self:
        self()
        return self

    def __exit__(self, *error: object) -> None: ...

    def __bool__(self) -> bool:
        return self() is self

    def __len__(self) -> int:
        return 1 if self() else 0

    def __eq__(self, other: object) -> bool:
        return self() is other

    def __lt__(self, other: object) -> bool:
        return self() is other

    def __hash__(self) -> int:
        return 1

    def __contains__(self, thing: object) -> bool:
        return self() is thing

    def __str__(self) -> str:
        return "x" if self() else ""

    def __format__(self, spec: str) -> str:
        return str(self)

    def __or__(self, other: object) -> "Asked":
        return self()

    def __truediv__(self, other: object) -> "Asked":
        return self()


class Everything(dict[str, Any]):
    """A state that has each key."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def __missing__(self, key: str) -> Asked:
        return Asked(self._gate)

    def get(self, key: str, default: object = None) -> Any:
        """Return what the key has, whatever the default is."""
        return self[key]


def corpus(gate: Gate) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each router with its name."""
    module = _loaded()
    for name in ASKED:
        setattr(module, name, Asked(gate))
    for name, router in list(vars(module).items()):
        if name.startswith("route_"):
            owner = getattr(router, "__self__", None)
            if hasattr(owner, "session"):
                setattr(owner, "session", Asked(gate))  # noqa: B010 - of an unknown class
            yield name, gate.named(name, router)


def _loaded() -> ModuleType:
    loader = SourceFileLoader("routers_blocking", str(FILE))
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

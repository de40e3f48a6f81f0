"""Run the savers of other packages over LangGraph and over actorgraph, and compare what they do.

Each saver's methods are called over LangGraph and over the layer; each graph runs over LangGraph,
over the layer, and as actorgraph's own with a saver of LangGraph's base class. A difference that no
entry of `differences.toml` allows is a failure, and so is an entry that allows nothing. Where a
saver can't do something over LangGraph, it may do it over actorgraph. One that can't run over the
newest LangGraph at all is compared with another one there.
"""

import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.ecosystem.processes import LAYER, NATIVE, command, environment
from tests.ecosystem.run import SHOWN_MAX, Allowed, Difference, differences, table
from tests.ecosystem.savers.library import BESIDE
from tests.ecosystem.savers.places import FOREIGN, IN_PROCESS, MARIADB, OLDER, POSTGRES, SAVERS
from tests.ecosystem.savers.stores import STORES
from tests.support.postgres_server import started

HERE = Path(__file__).parent
SECONDS_MAX = 240.0
PASSING_MIN = 6
REFERENCE = "objects"
"""Compared with savers that can't run over the newest LangGraph."""
BOTH = f"{LAYER} beside {NATIVE}"
MOVED = f"{NATIVE}, then {LAYER}"
KILLED = 9
Lines = dict[str, list[list[object]]]


@contextmanager
def servers(python: str, folder: Path) -> Iterator[dict[str, str]]:
    """Start the servers; yields the variables that have their addresses."""
    words = [python, "-m", "tests.ecosystem.savers.servers", str(folder)]
    database = started()
    process = subprocess.Popen(
        words,
        env=environment(),
        stderr=subprocess.DEVNULL,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline()) | {POSTGRES: database.url}
    finally:
        process.stdin.close()
        process.wait(timeout=SECONDS_MAX)
        process.stdout.close()
        database.let_go()
        database._server.cleanup()  # noqa: SLF001 - as its fixture does


class Programs:
    """Runs the programs of one saver.

    Args:
        variables: addresses of servers.
    """

    def __init__(self, python: str, folder: Path, variables: dict[str, str]) -> None:
        self._python = python
        self._folder = folder
        self._variables = variables
        self._native: dict[str, Lines] = {}

    def lines(self, library: str, program: str, saver: str, place: str, part: str = "") -> Lines:
        """Run a program over a library; returns its lines by way, and its errors as one of them."""
        module = f"tests.ecosystem.savers.{program}"
        words = command(self._python, library, module, saver, str(self._folder / place))
        more = {BESIDE: "1"} if library == BOTH else {}
        try:
            done = subprocess.run(
                [*words, *([part] if part else [])],
                env=environment() | self._variables | more,
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"ended": [[0, f"killed after {SECONDS_MAX:.0f} s"]]}
        found: Lines = {}
        for line in done.stdout.splitlines():
            if line.startswith('{"way"'):
                read = json.loads(line)
                found.setdefault(read["way"], []).append([read["turn"], read["item"]])
        if done.returncode not in (0, KILLED if part == "kill" else 0):
            found["ended"] = [[done.returncode, done.stderr[-600:]]]
        return found

    def killed(self, library: str, saver: str) -> Lines:
        """Kill a run, and let another process resume it."""
        place = f"{saver}_kill_{_short(library)}"
        first = self.lines(library, "graphs", saver, place, "kill")
        return first | self.lines(library, "graphs", saver, place, "resume")

    def moved(self, saver: str) -> Lines:
        """Kill a run over LangGraph, and let a process over the layer resume it."""
        place = f"{saver}_moved"
        first = self.lines(NATIVE, "graphs", saver, place, "kill")
        return first | self.lines(LAYER, "graphs", saver, place, "resume")

    def methods(self, library: str, saver: str) -> Lines:
        """Call the saver's methods over a library."""
        return self.lines(library, "contract", saver, f"{saver}_methods_{_short(library)}")

    def native_graphs(self, saver: str) -> Lines:
        """Run the graphs over LangGraph, once."""
        if saver not in self._native:
            self._native[saver] = self.graphs(NATIVE, saver)
        return self._native[saver]

    def stores(self, store: str) -> list[Difference]:
        """Run a store over both libraries; returns how they differ."""
        native, layer = [
            self.lines(library, "stores", store, f"store_{store}_{_short(library)}")
            for library in (NATIVE, LAYER)
        ]
        print(f"store {store}: {sum(map(len, layer.values()))} outputs", flush=True)
        wrong = [way for way in layer if way == "ended" or way.endswith(": failed")]
        found = [Difference(store, f"store {store}, {way}", None, layer[way]) for way in wrong]
        return [*found, *compared(f"store {store}", native, layer, LAYER)]

    def graphs(self, library: str, saver: str) -> Lines:
        """Run the graphs over a library."""
        found = self.lines(library, "graphs", saver, f"{saver}_graphs_{_short(library)}")
        return found if saver in IN_PROCESS else found | self.killed(library, saver)


def _short(library: str) -> str:
    return {NATIVE: "n", LAYER: "l", BOTH: "b"}[library]


def judged(
    saver: str, programs: Programs, pool: Executor, allowed: list[Allowed], used: Counter[str]
) -> bool:
    """Run one saver, and print how it differs; returns whether it is well."""
    ours = [LAYER] if saver in OLDER else [LAYER, BOTH] if saver in FOREIGN else [BOTH]
    asked, called = {}, {}
    for name in (NATIVE, *ours):
        if name == NATIVE:
            one = REFERENCE if saver in OLDER else saver
            asked[name] = pool.submit(programs.native_graphs, one)
        else:
            asked[name] = pool.submit(programs.graphs, name, saver)
        if name != BOTH and saver in FOREIGN and saver not in OLDER:
            called[name] = pool.submit(programs.methods, name, saver)
    durable = saver in FOREIGN and saver not in {*OLDER, *IN_PROCESS}
    moving = pool.submit(programs.moved, saver) if durable else None
    graphs = {name: one.result() for name, one in asked.items()}
    methods = {name: one.result() for name, one in called.items()}
    found = [one for name in ours for one in compared(saver, graphs[NATIVE], graphs[name], name)]
    if methods:
        found += compared(saver, methods[NATIVE], methods[LAYER], LAYER)
    if moving is not None:
        kills = {way: items for way, items in graphs[NATIVE].items() if way.startswith("kill:")}
        found += compared(saver, kills, moving.result(), MOVED)
    left = not_allowed(found, allowed, used)
    ended = [graphs[name]["ended"] for name in ours if "ended" in graphs[name]]
    lines = sum(len(items) for name in ours for items in graphs[name].values())
    lines += sum(map(len, methods.get(LAYER, {}).values()))
    print(f"{saver}: {lines} outputs, {len(left)} differences", flush=True)
    for one in left[:SHOWN_MAX]:
        print(f"  {one}")
    for text in ended[:1]:
        print(f"  ended: {text}")
    return not left and not ended


def not_allowed(
    found: list[Difference], allowed: list[Allowed], used: Counter[str]
) -> list[Difference]:
    """Return the differences that no entry allows; counts those that one does."""
    left = list[Difference]()
    for one in found:
        entry = next((entry for entry in allowed if entry.allows(one)), None)
        if entry is None:
            left.append(one)
        else:
            used[entry.reason] += 1
    return left


def compared(saver: str, native: Lines, ours: Lines, library: str) -> Iterator[Difference]:
    """The differences of what both do; not of what only ours can do."""
    unable = {way.removesuffix(": failed") for way in native if way.endswith(": failed")}
    for one in differences(saver, native, ours):
        if one.place.partition(":")[0] not in unable:
            yield Difference(saver, f"{saver}, {library}, {one.place}", one.native, one.layer)


def compare_savers(python: str, names: tuple[str, ...] = tuple(SAVERS)) -> bool:
    """Run the savers; prints and returns whether they do the same and enough of them pass."""
    allowed, used = table(HERE, "savers"), Counter[str]()
    passing, failed = list[str](), False
    with (
        tempfile.TemporaryDirectory(prefix="s", dir=_short_folder()) as place,
        servers(python, Path(place)) as variables,
        ThreadPoolExecutor(2) as pool,
    ):
        programs = Programs(python, Path(place), variables)
        for saver in names:
            if saver == "mysql" and MARIADB not in variables:
                print("mysql: not run, there is no mariadbd")
                continue
            good = judged(saver, programs, pool, allowed, used)
            passing += [saver] if good and saver in FOREIGN else []
            failed = failed or not good
        for store in STORES if len(names) == len(SAVERS) else ():
            if store != "mysql" or MARIADB in variables:
                for one in not_allowed(programs.stores(store), allowed, used):
                    print(f"  {one}")
                    failed = True
    print(f"{len(passing)} savers of other packages pass over the layer: {', '.join(passing)}")
    if len(names) == len(SAVERS):
        for entry in allowed:
            if not used[entry.reason]:
                print(f"differences.toml: nothing differs any more: {entry.reason}")
                failed = True
        failed = failed or len(passing) < PASSING_MIN
    return not failed


def _short_folder() -> str | None:
    # A socket's path has 107 bytes at most.
    return "/tmp" if os.path.isdir("/tmp") else None  # noqa: S108, PTH112

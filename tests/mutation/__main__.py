"""Mutation testing: change the code in small ways, and see whether the tests notice.

    make mutants                              # every room of tests/mutation/rooms.toml: hours
    make mutants ARGS='judge'                 # one room
    make mutants ARGS='superstep/answers'     # the files whose path has this text: minutes
    make mutants ARGS='driver --sample 80'    # 80 mutants of each file, chosen by a seed
    make mutants ARGS='--list'                # which files are in which room

mutmut makes the mutants and runs them, in a copy of the tree: for each mutant only the tests of
the room that call the mutated function, in a process of its own. Hashes and Hypothesis's examples
are the same at each run. A mutant that runs into mutmut's time limit counts as killed.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.support.source_files import ROOT

HERE = Path(__file__).parent
COPIED = (
    "actorgraph",
    "tests",
    "examples",
    "docs",
    ".ci",
    "Makefile",
    "pyproject.toml",
    "README.md",
)
NOTICED = {"killed", "timeout", "segfault", "caught by type check"}
NO_RESULT = "not run"
MISSED = ("survived", "no tests", NO_RESULT)
CLASS = "ǁ"
"""The characters that mutmut puts around the name of a method's class."""

NOT_RUN = 255
"""Exit code where pytest refused the tests, e.g. because of ids that it doesn't find again."""

NOT_RUN_MAX = 5
"""Mutants without a result that a room may have."""

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
"""First characters of the lines by which mutmut shows that it is at work."""

NAMES = """
import sys
from pathlib import Path
from mutmut.mutation.file_mutation import mutate_file_contents
for file in sys.argv[1:]:
    module = file.removesuffix(".py").replace("/", ".")
    for name in mutate_file_contents(file, Path(file).read_text("utf-8")).mutant_names:
        print(module, name)
"""
"""A program that prints the mutants of files, in the folder that has mutmut's settings."""

SETTINGS = """
[tool.mutmut]
source_paths = ["actorgraph"]
only_mutate = {code}
also_copy = {copied}
pytest_add_cli_args = {options}
pytest_add_cli_args_test_selection = {tests}
# Its other way runs pytest several times in one process, which Hypothesis refuses.
process_isolation = "forkserver"
timeout_constant = 5.0
timeout_multiplier = 10.0
track_dependencies = false
use_git_change_detection = false
"""


@dataclass(frozen=True)
class Room:
    """Files that are mutated together, and the tests that must notice."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Survivor:
    """A mutant that no test noticed: its function, and the lines taken out and put in."""

    module: str
    function: str
    change: str
    status: str
    """`survived`, `no tests` where no test of the room calls the function, or `not run`."""

    def __str__(self) -> str:
        """The entry that tests/mutation/survivors.toml would have, to be completed."""
        text = (
            f"[[survivor]]  # {self.module}: {self.status}\nfunction = {json.dumps(self.function)}"
        )
        return f"{text}\nchange = '''\n{self.change}\n'''\nwhy = \"\"\n"


@dataclass(frozen=True)
class Reason:
    """An entry of survivors.toml: of one mutant by its change, or of many by a pattern.

    Attributes:
        function: the function's name; with a pattern also of several (`Class.*`).
        change: the lines taken out and put in.
        pattern: a regular expression that is found in the change; empty if there is a `change`.
        why: why no test needs to notice it.
    """

    function: str
    change: str
    pattern: str
    why: str

    def covers(self, survivor: Survivor) -> bool:
        """Whether this is the reason for a survivor; nothing is for one without a result."""
        if survivor.status == NO_RESULT:
            return False
        if not self.pattern:
            return (self.function, self.change) == (survivor.function, survivor.change)
        found = re.search(self.pattern, survivor.change, re.MULTILINE)
        return found is not None and fnmatchcase(survivor.function, self.function)


def rooms() -> list[Room]:
    """The rooms of rooms.toml, with the files that are there now."""
    made: list[Room] = []
    for name, parts in tomllib.loads((HERE / "rooms.toml").read_text("utf-8")).items():
        files = [file for glob in parts["code"] for file in sorted(ROOT.glob(glob))]
        code = [f.relative_to(ROOT).as_posix() for f in files if f.name != "__init__.py"]
        made.append(Room(name, tuple(code), tuple(parts["tests"]), tuple(parts.get("options", ()))))
    return made


def reasons() -> list[Reason]:
    """The entries of survivors.toml."""
    entries = tomllib.loads((HERE / "survivors.toml").read_text("utf-8")).get("survivor", [])
    return [
        Reason(e["function"], e.get("change", "").strip(), e.get("pattern", ""), e["why"])
        for e in entries
    ]


def reason_for(survivor: Survivor, among: Iterable[Reason]) -> str:
    """Why no test needs to notice a survivor; empty if no entry says so."""
    return next((reason.why for reason in among if reason.covers(survivor)), "")


def chosen(wanted: str | None) -> Iterator[Room]:
    """The rooms of that name, or with the files whose path has that text."""
    for room in rooms():
        code = (
            room.code if wanted in {None, room.name} else tuple(f for f in room.code if wanted in f)
        )
        if code:
            yield Room(room.name, code, room.tests, room.options)


def copy(room: Room, folder: Path) -> None:
    """The tree as mutmut is to see it, with its settings."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    settings = SETTINGS.format(
        code=json.dumps(room.code),
        copied=json.dumps(COPIED),
        options=json.dumps(["-p", "no:cacheprovider", "-p", "no:xdist", *room.options]),
        tests=json.dumps(room.tests),
    )
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(settings)


def mutmut(folder: Path, *arguments: str) -> str:
    """Run mutmut there; what it prints."""
    environment = {**os.environ, "CI": "true", "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONPATH", None)  # it would lead to the code that is not mutated
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        printed = [line for line in done.stdout.splitlines() if line[:1] not in SPINNER]
        sys.exit(
            "\n".join([*printed[-50:], done.stderr[-4000:], f"mutmut {arguments[0]} failed"])
            + "\nDo the room's tests pass without mutants? It says no more if one fails."
        )
    return done.stdout


def sample(mutants: Iterable[tuple[str, str]], size: int, seed: int) -> list[str]:
    """Choose mutants of each module by a seed; all of a module that has no more.

    Args:
        mutants: (module, name).
        size: mutants of each module.
    Returns: mutants as mutmut names them.
    """
    of_module: dict[str, list[str]] = defaultdict(list)
    for module, name in mutants:
        of_module[module].append(f"{module}.{name}")
    return [
        name
        for module, names in of_module.items()
        for name in random.Random(f"{seed} {module}").sample(names, min(size, len(names)))
    ]


def sample_in(room: Room, folder: Path, size: int, seed: int) -> list[str]:
    """Choose mutants of each of a room's files; see `sample`."""
    command = [sys.executable, "-c", NAMES, *room.code]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=True)
    return sample([(m, n) for m, n in map(str.split, done.stdout.splitlines())], size, seed)


def place(mutant: str) -> tuple[str, str]:
    """(module, function) of a mutant's name, `package.module.x_function__mutmut_3`."""
    module, _, name = mutant.partition("__mutmut_")[0].rpartition(".")
    return module, name.removeprefix("x_").removeprefix(f"x{CLASS}").replace(CLASS, ".")


def change(diff: str) -> str:
    """The lines of a diff that differ, without their indentation."""
    lines = [line for line in diff.splitlines() if line[:1] in {"-", "+"}]
    return "\n".join(f"{x[0]} {x[1:].strip()}" for x in lines if not x.startswith(("---", "+++")))


def not_run(folder: Path) -> set[str]:
    """The mutants whose tests could not be run, which mutmut calls timeouts.

    A busy machine is to blame for a few; of many, tests that have other ids when they are
    collected a second time in one process.
    """
    return {
        name
        for file in sorted((folder / "mutants").rglob("*.meta"))
        for name, code in json.loads(file.read_text("utf-8"))["exit_code_by_key"].items()
        if code == NOT_RUN
    }


def run(
    room: Room, workers: int, folder: Path, size: int, seed: int
) -> tuple[dict[str, Counter[str]], list[Survivor]]:
    """Module -> how many mutants became what; and the survivors.

    Args:
        size: mutants of each file; 0 for all.
    """
    copy(room, folder)
    names = sample_in(room, folder, size, seed) if size else []
    mutmut(folder, "run", "--max-children", str(workers), *names)
    without = not_run(folder)
    if len(without) > NOT_RUN_MAX:
        sys.exit(
            f"the tests of {len(without)} mutants could not be run, e.g. of {min(without)}\n"
            "Do these tests have the same ids when they are collected twice in one process?"
        )
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    survivors: list[Survivor] = []
    for line in mutmut(folder, "results", "--all", "true").splitlines():
        mutant, _, status = line.strip().partition(": ")
        if not status or (names and mutant not in names):
            continue
        module, function = place(mutant)
        status = NO_RESULT if mutant in without else status
        counts[module][status] += 1
        if status not in NOTICED:
            diff = mutmut(folder, "show", mutant)
            survivors.append(Survivor(module, function, change(diff), status))
    return counts, survivors


def report(counts: dict[str, Counter[str]], survivors: Iterable[Survivor]) -> int:
    """Print a line per module and the survivors without a word; how many these are."""
    words = reasons()
    explained = [(survivor, reason_for(survivor, words)) for survivor in survivors]
    heads = (f"{head:>9}" for head in ("mutants", "killed", *MISSED, "%"))
    print(f"{'module':50}", *heads)
    for module, each in [*sorted(counts.items()), ("all", sum(counts.values(), Counter[str]()))]:
        noticed = sum(each[status] for status in NOTICED)
        missed = " ".join(f"{each[status]:9}" for status in MISSED)
        share = 100 * noticed / max(1, each.total())
        print(f"{module:50} {each.total():9} {noticed:9} {missed} {share:9.1f}")
    for survivor, why in explained:
        if why:
            print(f"\nexplained: {survivor.module}.{survivor.function}: {why}\n{survivor.change}")
    unexplained = [survivor for survivor, why in explained if not why]
    print(*(f"\n{survivor}" for survivor in unexplained), sep="")
    return len(unexplained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", help="a room, or a part of a file's path")
    parser.add_argument("--list", action="store_true", help="print the rooms and their files")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sample", type=int, default=0, help="so many mutants of each file")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    options = parser.parse_args()
    found = list(chosen(options.what))
    if options.list or not found:
        print("\n".join(f"{room.name}: {file}" for room in rooms() for file in room.code))
        return
    unexplained = 0
    for room in found:
        some = (
            f", {options.sample} mutants of each by seed {options.seed}" if options.sample else ""
        )
        print(f"room {room.name}, {len(room.code)} files{some}", flush=True)
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            unexplained += report(
                *run(room, options.workers, Path(folder), options.sample, options.seed)
            )
    sys.exit(f"{unexplained} survivors without a word" if unexplained else 0)


if __name__ == "__main__":
    main()

"""Targets of an audit: command-line names -> packages, each with a name that lasts.

Receives   names of standard library packages, folders, files, installed distributions;
           none means the whole standard library
Sends      one Package per top-level package or module
Invariant  a Package's `thread` is the same in every run, so that a later run finds the
           thread; files are listed in one order on every machine.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

# A test suite measures differently from the code it tests (long, flat, undocumented).
TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
NEVER_FOLDERS = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})


class UnknownTargetError(Exception):
    """A target is neither of the four things that can be audited."""


@dataclass(frozen=True, slots=True)
class Package:
    """One top-level package or module: the work of one thread.

    Args:
        thread: the thread_id.
        name: what reports call it, unique in one audit.
        root: its folder, or its file.
        with_tests: whether test suites inside it count.
    """

    thread: str
    name: str
    root: Path
    with_tests: bool = False


def find_packages(targets: Iterable[str], *, with_tests: bool) -> list[Package]:
    """Resolve the command line.

    Raises:
        UnknownTargetError: a target names nothing that has Python source.
    """
    names = list(targets)
    found = [package for name in names for package in _resolve(name, with_tests)]
    if not names:
        found = list(_standard_library(with_tests))
    # One that is named twice is one thread. Two of one name would share a report.
    packages, taken = list[Package](), set[str]()
    for package in {package.thread: package for package in found}.values():
        unique = _free_name(package.name, taken)
        taken.add(unique)
        packages.append(replace(package, name=unique))
    return sorted(packages, key=lambda package: package.name)


def list_sources(root: Path, *, with_tests: bool) -> list[str]:
    """The Python files of a package, relative to the folder that holds it, sorted."""
    if root.is_file():
        return [root.name]
    files = list[str]()
    for folder, inner, names in os.walk(root):
        # `os.walk` goes on into what stays in this list.
        inner[:] = sorted(name for name in inner if _is_wanted(Path(folder, name), with_tests))
        here = Path(folder).relative_to(root.parent)
        files += ((here / name).as_posix() for name in names if name.endswith(".py"))
    return sorted(files)


def standard_library() -> Path:
    """The folder of the interpreter's own source; a virtual environment shares its parent's."""
    return Path(sysconfig.get_path("stdlib"))


def _is_wanted(folder: Path, with_tests: bool) -> bool:
    """Leave out virtual environments inside a folder too: they aren't its own source."""
    return (
        folder.name not in NEVER_FOLDERS
        and not folder.name.startswith(".")
        and (with_tests or folder.name not in TEST_FOLDERS)
        and not (folder / "pyvenv.cfg").exists()
    )


def _resolve(target: str, with_tests: bool) -> list[Package]:
    """One target: a path when it looks like one, then the standard library, then installed."""
    looks_like_a_path = os.sep in target or target.startswith(".") or target.endswith(".py")
    root = _source_in(standard_library(), target)
    if not looks_like_a_path and target in sys.stdlib_module_names and root:
        return [_standard_package(target, root, with_tests)]
    found = [] if looks_like_a_path else list(_distribution(target, with_tests))
    found = found or list(_folder(Path(target), with_tests))
    if not found:
        raise UnknownTargetError(
            f"{target!r} is not a package of the standard library, an installed distribution with"
            " Python source, or a folder or file with Python source.\n"
            "  Do this: name one of these, or none to audit the whole standard library"
        )
    return found


def _standard_library(with_tests: bool) -> Iterator[Package]:
    """Every top-level name that has Python source; names written in C have none."""
    suites = {"test"} if with_tests else set[str]()
    for name in sorted(sys.stdlib_module_names | suites):
        if root := _source_in(standard_library(), name):
            yield _standard_package(name, root, with_tests)


def _standard_package(name: str, root: Path, with_tests: bool) -> Package:
    # Another interpreter has another library, and one with its tests is another package.
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Package(f"{library}{'+tests' if with_tests else ''}/{name}", name, root, with_tests)


def _source_in(folder: Path, name: str) -> Path | None:
    """The folder or file that `import name` would find in a folder."""
    if (folder / name / "__init__.py").is_file():
        return folder / name
    module = folder / f"{name}.py"
    return module if module.is_file() else None


def _distribution(name: str, with_tests: bool) -> Iterator[Package]:
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        return
    # Scripts are listed as "../../bin/x"; anything else begins with its top-level name.
    sources = [file for file in distribution.files or [] if file.suffix == ".py"]
    for top in sorted({file.parts[0] for file in sources} - {".."}):
        thread = f"{distribution.name}-{distribution.version}/{top}"
        root = Path(str(distribution.locate_file(top)))
        yield Package(thread, top.removesuffix(".py"), root, with_tests)


def _folder(path: Path, with_tests: bool) -> Iterator[Package]:
    """A package or module itself, or else every package and module right inside a folder."""
    root = path.resolve()
    if (root.suffix == ".py" and root.is_file()) or (root / "__init__.py").is_file():
        yield Package(root.as_posix(), root.stem, root, with_tests)
    elif root.is_dir():
        for entry in sorted(root.iterdir()):
            is_module = entry.suffix == ".py" and entry.is_file()
            if is_module or (entry.is_dir() and _holds_sources(entry, with_tests)):
                yield Package(entry.as_posix(), entry.stem, entry, with_tests)


def _holds_sources(folder: Path, with_tests: bool) -> bool:
    return _is_wanted(folder, with_tests) and bool(list_sources(folder, with_tests=with_tests))


def _free_name(name: str, taken: set[str]) -> str:
    """`name`, or the first of name-2, name-3 ... that is free."""
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique

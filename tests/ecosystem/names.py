"""The names of `langgraph` that published packages import, and which of them the layer has.

    python -m tests.ecosystem.names FOLDER    # reads wheels and sdists; writes names.json
    python -m tests.ecosystem.names --download FOLDER    # downloads PACKAGES before

`names.json` is package -> module of LangGraph -> names; the page docs/ecosystem.md has the result.
Modules that the packages put into LangGraph's namespaces themselves are left out.
"""

import argparse
import ast
import json
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from actorgraph.compat.modules import ABSENT, MODULES
from actorgraph.compat.portions import ROOT, is_foreign

HERE = Path(__file__).parent
FOUND = HERE / "names.json"
PACKAGES = tuple((HERE / "packages.txt").read_text("utf-8").split())
PAUSE_S = 0.3
Names = dict[str, dict[str, list[str]]]


def names_in(source: str) -> Iterator[tuple[str, str]]:
    """The (module, name) that a source file imports or reads; name "" for a module itself."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module):
            for one in node.names:
                yield str(node.module), "" if one.name == "*" else one.name
                bound[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                if _is_ours(one.name):
                    yield one.name, ""
                    bound[one.asname or ROOT] = one.name if one.asname else ROOT
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _read(node, bound)


def _read(node: ast.Attribute, bound: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The name that an attribute of an imported module is."""
    parts = [node.attr]
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        parts.insert(0, value.attr)
        value = value.value
    module = bound.get(value.id) if isinstance(value, ast.Name) else None
    while module is not None and parts and f"{module}.{parts[0]}" in MODULES:
        module = f"{module}.{parts.pop(0)}"
    if module in MODULES and len(parts) == 1 and not parts[0].startswith("__"):
        yield module, parts[0]


def _is_ours(module: str | None) -> bool:
    return module is not None and (module == ROOT or module.startswith(f"{ROOT}."))


def sources(archive: Path) -> Iterator[str]:
    """The Python files of a wheel or a source distribution, without its tests."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                if name.endswith(".py") and not _is_test(name):
                    yield opened.read(name).decode("utf-8", "replace")
        return
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            file = opened.extractfile(member) if member.name.endswith(".py") else None
            if file is not None and not _is_test(member.name):
                yield file.read().decode("utf-8", "replace")


def _is_test(path: str) -> bool:
    parts = path.split("/")
    own = any(part in {"tests", "test", "testing", "conformance"} for part in parts[:-1])
    return (own and "langgraph/checkpoint/conformance" not in path) or parts[-1].startswith("test_")


def collected(folder: Path) -> Names:
    """Read the archives of a folder; returns package -> module -> names."""
    found: Names = {}
    for archive in sorted(folder.iterdir()):
        package = archive.name.split("-")[0].replace("_", "-").lower()
        own: dict[str, set[str]] = {}
        for source in sources(archive):
            for module, name in names_in(source):
                if not is_foreign(module) and not is_foreign(f"{module}.{name}"):
                    own.setdefault(module, set()).add(name)
        if own:
            found[package] = {module: sorted(own[module]) for module in sorted(own)}
    return found


def is_here(module: str, name: str) -> bool:
    """Whether the layer answers a name, or a module of that name."""
    if not name:
        return module in MODULES
    return name in MODULES.get(module, {}) or f"{module}.{name}" in MODULES


def missing(found: Names) -> dict[tuple[str, str], list[str]]:
    """The names that the layer lacks -> the packages that import them."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for package, modules in found.items():
        for module, names in modules.items():
            for name in names:
                if not is_here(module, name):
                    lacking.setdefault((module, name), []).append(package)
    return lacking


def decision(module: str, name: str) -> str | None:
    """Why a name is absent, and the way out; None without a decision."""
    return ABSENT.get(f"{module}.{name}" if name else module) or ABSENT.get(module)


def stored() -> Names:
    """Read the names that were found."""
    return json.loads(FOUND.read_text("utf-8"))


def download(folder: Path) -> None:
    """Download the packages' archives, one after the other."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
    for package in PACKAGES:
        subprocess.run([*words, package], check=False)
        time.sleep(PAUSE_S)


def main() -> None:
    """Collect the names, write them, and print those that are missing."""
    arguments = argparse.ArgumentParser(prog="python -m tests.ecosystem.names")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--download", action="store_true")
    given = arguments.parse_args()
    if given.download:
        download(given.folder)
    found = collected(given.folder)
    FOUND.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    count = sum(len(names) for modules in found.values() for names in modules.values())
    print(f"{len(found)} packages import {count} names")
    for (module, name), packages in missing(found).items():
        said = decision(module, name) or "NOT DECIDED"
        print(f"{module} {name or '(module)'}: {', '.join(packages)}: {said}")


if __name__ == "__main__":
    main()

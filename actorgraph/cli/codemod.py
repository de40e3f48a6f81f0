"""Rewrite a program's LangGraph imports: `python -m actorgraph.cli.codemod PATH ... [--write]`.

Without --write it prints a diff. The exit code is 1 if something is left to do by hand: names
without an equivalent in actorgraph keep their import, and are listed.
"""

import argparse
import sys
import tokenize
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from importlib import import_module
from io import BytesIO
from pathlib import Path

from actorgraph.cli.name_map import NAMES
from actorgraph.cli.rewrite import NameMap, rewrite

SUFFIXES = (".py", ".pyi")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m actorgraph.cli.codemod", description="Move LangGraph imports to actorgraph."
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders")
    parser.add_argument(
        "--write", action="store_true", help="change the files; default: print a diff"
    )
    options = parser.parse_args(arguments)
    homes = installed_names()
    changed = 0
    missing = [path for path in options.paths if not path.exists()]
    for path in missing:
        sys.stderr.write(f"{path}: no such file or folder\n")
    left = len(missing)
    for file in _files(options.paths):
        did, remarks = _rewrite_file(file, homes, write=options.write)
        changed += did
        left += remarks
    verb = "changed" if options.write else "would change"
    sys.stderr.write(f"{verb} {changed} files; {left} places to look at\n")
    return 1 if left else 0


def installed_names() -> NameMap:
    """Return the names that this installation has: optional extras may be missing."""
    return {
        module: {name: home for name, home in names.items() if exists(home)}
        for module, names in NAMES.items()
    }


def exists(home: str) -> bool:
    """Whether a dotted name can be imported."""
    package, _, name = home.rpartition(".")
    try:
        return hasattr(import_module(package), name)
    except ImportError:
        return False


def _rewrite_file(file: Path, homes: NameMap, *, write: bool) -> tuple[bool, int]:
    """Rewrite one file; returns whether it changes, and how many places are left to look at."""
    data = file.read_bytes()
    try:
        encoding = tokenize.detect_encoding(BytesIO(data).readline)[0]
        old = data.decode(encoding)
        new = rewrite(old, homes)
    except (SyntaxError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{file}: not changed: {error}\n")
        return False, 1
    for remark in new.remarks:
        sys.stderr.write(f"{file}:{remark.line}: {remark.text}\n")
    if write and new.text != old:
        file.write_bytes(new.text.encode(encoding))
    elif not write:
        before, after = old.splitlines(keepends=True), new.text.splitlines(keepends=True)
        sys.stdout.writelines(unified_diff(before, after, str(file), str(file)))
    return new.text != old, len(new.remarks)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Iterate over the Python files below, without hidden folders and virtual environments."""
    for path in paths:
        if path.is_dir():
            if not (path / "pyvenv.cfg").exists():
                inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
                yield from _files([p for p in inside if p.is_dir() or p.suffix in SUFFIXES])
        elif path.exists():
            yield path


if __name__ == "__main__":
    sys.exit(main())

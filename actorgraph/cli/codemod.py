"""Rewrite a program's LangGraph imports: `python -m actorgraph.cli.codemod PATH ... [--write]`.

Without --write it prints a diff; with --check it prints the report alone. The report has, for each
place that a person has to look at, the file and line, the finding, and what to do.

Exit code   0 the program is moved, or would be; 1 something is left to do by hand, or, with
            --check, a file would change; 2 wrong arguments
"""

import argparse
import ast
import json
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import unified_diff
from importlib import import_module
from io import BytesIO
from pathlib import Path

from actorgraph.cli.findings import Remark
from actorgraph.cli.name_map import NAMES
from actorgraph.cli.objects import Modules, Objects, objects_of
from actorgraph.cli.other_files import is_known, remarks_in
from actorgraph.cli.rewrite import NameMap, rewrite

SUFFIXES = (".py", ".pyi")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m actorgraph.cli.codemod", description="Move LangGraph imports to actorgraph."
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files and folders")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="change the files; default: print a diff")
    how.add_argument(
        "--check", action="store_true", help="change nothing; exit code 1 if a file would change"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the places to look at as JSON lines"
    )
    options = parser.parse_args(arguments)
    command = _Command(installed_names(), write=options.write, shows=not options.check)
    command.run(options.paths)
    if options.report is not None:
        options.report.write_text("".join(command.lines), "utf-8")
    verb = "changed" if options.write else "would change"
    sys.stderr.write(f"{verb} {command.changed} files; {command.left} places to look at\n")
    return 1 if command.left or (options.check and command.changed) else 0


class _Command:
    """One run of the command: the changed files and the places that are left.

    Args:
        homes: LangGraph module -> name -> dotted name here.
        write: whether files are changed.
        shows: whether diffs are printed.
    """

    def __init__(self, homes: NameMap, *, write: bool, shows: bool) -> None:
        self.changed = 0
        self.left = 0
        self.lines: list[str] = []
        self._homes, self._write, self._shows = homes, write, shows

    def run(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if not path.exists():
                self._say(path, Remark(0, "no such file or folder"))
        programs: dict[Path, str] = {}
        for file in _files(paths):
            try:
                text, encoding = _read(file)
            except (SyntaxError, UnicodeDecodeError) as error:
                self._say(file, Remark(0, f"not changed: {error}"))
                continue
            if file.suffix in SUFFIXES:
                programs[file] = encoding
            if is_known(file):
                for remark in remarks_in(file, text):
                    self._say(file, remark)
        elsewhere = {file.stem: _objects(file) for file in programs}
        for file, encoding in programs.items():
            own = {folder.name for folder in file.parents if (folder / "__init__.py").exists()}
            self._move(file, encoding, elsewhere, own)

    def _move(self, file: Path, encoding: str, elsewhere: Modules, own: set[str]) -> None:
        old = file.read_bytes().decode(encoding)
        try:
            new = rewrite(old, self._homes, elsewhere, own)
        except SyntaxError as error:
            self._say(file, Remark(0, f"not changed: {error}"))
            return
        for remark in new.remarks:
            self._say(file, remark)
        self.changed += new.text != old
        if self._write and new.text != old:
            file.write_bytes(new.text.encode(encoding))
        elif self._shows and not self._write:
            before, after = old.splitlines(keepends=True), new.text.splitlines(keepends=True)
            sys.stdout.writelines(unified_diff(before, after, str(file), str(file)))

    def _say(self, file: Path, remark: Remark) -> None:
        """Report a place: on stderr, and for the file of --report."""
        self.left += not remark.is_note
        place = f"{file}:{remark.line}" if remark.line else f"{file}"
        note = "note: " if remark.is_note else ""
        do = f"\n    do: {remark.do}" if remark.do else ""
        sys.stderr.write(f"{place}: {note}{remark.text}{do}\n")
        self.lines.append(f"{json.dumps({'file': str(file), **asdict(remark)})}\n")


def _read(file: Path) -> tuple[str, str]:
    """Read a file's text, and its encoding as a Python program."""
    data = file.read_bytes()
    encoding = tokenize.detect_encoding(BytesIO(data).readline)[0]
    return data.decode(encoding), encoding


def _objects(file: Path) -> Objects:
    """Find the graphs of a file, for the files that import them."""
    try:
        return objects_of(ast.parse(_read(file)[0]))
    except SyntaxError:
        return Objects()


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


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Iterate over the files below that are known, without hidden folders and environments."""
    for path in paths:
        if path.is_dir():
            if not (path / "pyvenv.cfg").exists():
                inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
                yield from _files(
                    [p for p in inside if p.is_dir() or p.suffix in SUFFIXES or is_known(p)]
                )
        elif path.exists():
            yield path


if __name__ == "__main__":
    sys.exit(main())

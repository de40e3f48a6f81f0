"""`make test-all`: run the tests on every Python 3.11 to 3.14 of this machine.

`make test-newest` (`--newest`) runs what depends on the interpreter, on the newest of them that
isn't the one that `make test` has.

Interpreters are found on PATH, among pyenv's versions and uv's. Each gets an environment,
`.venv-3.12` and so on, which is kept; it is renewed when pyproject.toml is newer. Arguments go to
pytest.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
OPTIONS = ["--ignore=tests/docs", "-q"]
INTERPRETER = {
    "tests/api/test_blocking_twins.py": "signatures of our own methods",
    "tests/api/test_entrypoint.py": "annotations of entrypoints and tasks",
    "tests/api/test_json_schemas.py": "annotations as JSON schemas",
    "tests/api/test_runnables.py": "schemas that pydantic makes of TypedDicts",
    "tests/channels": "signatures of reducers",
    "tests/codec": "subclasses, enums, named tuples and generic classes, by their attributes",
    "tests/errors": "Python's own texts in ours; excerpts of tracebacks",
    "tests/plan": "annotations, signatures and byte code of a program's functions",
    "tests/prebuilt": "schemas and docstrings of tools",
    "tests/runtime/test_after_fork.py": "forked processes",
    "tests/runtime/test_steppers.py": "a coroutine without an event loop, in threads of ours",
    "tests/runtime/test_ctrl_c.py": "signals between blocking code and an event loop",
    "tests/runtime/test_inline_routers.py": "coroutines that are stepped without a loop",
    "tests/runtime/test_injection.py": "signatures of nodes",
    "tests/runtime/test_signals.py": "signals of event loops in nodes",
    "tests/runtime/test_tracebacks.py": "frames of ours that are taken out of tracebacks",
    "tests/savers/test_external_connections.py": "modes and threads of sqlite3's connections",
    "tests/savers/test_sqlite_file.py": "the same, of our own",
    "tests/storage": "connections that are freed while open",
    "tests/stores/test_store_locations.py": "the same, of stores",
}
"""Tests that a new version of Python is likely to break, and why: `make test-newest`."""
QUICK = ["-k", "not postgres"]
"""A server's answers don't depend on the interpreter."""


def found() -> dict[str, Path]:
    """Version -> an interpreter that starts, of those that are wanted."""
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    result: dict[str, Path] = {}
    for version in VERSIONS:
        kept = [*pyenv.glob(f"{version}.*"), *uv.glob(f"cpython-{version}.*")]
        inside = [folder / "bin" / "python" for folder in sorted(kept, key=_numbers, reverse=True)]
        on_path = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
        starting = (python for python in [*inside, *on_path] if version_of(python) == version)
        if python := next(starting, None):
            result[version] = python
    return result


def _numbers(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def version_of(python: Path) -> str:
    """Return "3.12" and so on; "" if it doesn't start (pyenv's shims of other versions)."""
    text = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", text], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def environment(version: str, python: Path) -> Path | None:
    """Make or renew an environment with the tests' packages; None if that fails."""
    folder = ROOT / f".venv-{version}"
    inside, stamp = folder / "bin" / "python", folder / ".dev"
    project = ROOT / "pyproject.toml"
    if stamp.exists() and stamp.stat().st_mtime >= project.stat().st_mtime:
        return inside
    # Python compiles what tests import; pip would compile every module of every package.
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    for command in (
        [python, "-m", "venv", "--clear", folder],
        [inside, "-m", "pip", "install", *quiet, "-e", f"{ROOT}[dev]"],
    ):
        if subprocess.run(command, check=False).returncode:
            return None
    stamp.touch()
    return inside


def main(arguments: list[str]) -> int:
    """Run the tests on each version, or on the newest; returns 0 if all pass."""
    pythons, versions, chosen = found(), list(VERSIONS), ["tests"]
    if arguments[:1] == ["--newest"]:
        own = "{}.{}".format(*sys.version_info)
        versions, arguments = newest(pythons, own), arguments[1:]
        chosen = [*INTERPRETER, *QUICK]
        if not versions:
            print(f"no other Python of {', '.join(VERSIONS)} is found here besides {own}")
            return 0
    return run(pythons, versions, arguments or [*chosen, *OPTIONS])


def newest(pythons: dict[str, Path], own: str) -> list[str]:
    """The newest version that is found besides one's own; [] without another."""
    return [version for version in VERSIONS if version in pythons and version != own][-1:]


def run(pythons: dict[str, Path], versions: list[str], arguments: list[str]) -> int:
    """Run pytest on these versions; returns 0 if all pass."""
    lines, failed = list[str](), False
    for version in versions:
        if version not in pythons:
            lines.append(f"{version}  not found")
            continue
        print(f"=== Python {version}: {pythons[version]}", flush=True)
        inside, began = environment(version, pythons[version]), time.monotonic()
        if inside is None:
            failed = True
            lines.append(f"{version}  its packages can't be installed")
            continue
        workers = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal"]
        command = [inside, "-m", "pytest", *workers, *arguments]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
            last = ""
            for line in tests.stdout or ():
                print(line, end="", flush=True)
                last = line.strip() or last
        failed = failed or tests.returncode != 0
        state = "passed" if tests.returncode == 0 else "FAILED"
        took = time.monotonic() - began
        lines.append(f"{version}  {state} in {took:.0f} s: {last.strip('= ')}")
    print("\n".join(["", *lines]))
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

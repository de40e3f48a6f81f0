"""`make test-all`: run the tests on every Python 3.11 to 3.14 of this machine.

Interpreters are found on PATH and among pyenv's versions. Each gets an environment, `.venv-3.12`
and so on, which is kept; it is renewed when pyproject.toml is newer. Arguments go to pytest.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
DEFAULTS = ["tests", "--ignore=tests/docs", "-q"]


def found() -> dict[str, Path]:
    """Version -> an interpreter that starts, of those that are wanted."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders = sorted(pyenv.glob("3.*"), key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])
    result: dict[str, Path] = {}
    for version in VERSIONS:
        named = shutil.which(f"python{version}")
        newest = [f / "bin" / "python" for f in folders if f.name.startswith(f"{version}.")]
        for python in [*reversed(newest), *([Path(named)] if named else [])]:
            if version not in result and version_of(python) == version:
                result[version] = python
    return result


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
    quiet = ["--quiet", "--disable-pip-version-check"]
    for command in (
        [python, "-m", "venv", "--clear", folder],
        [inside, "-m", "pip", "install", *quiet, "-e", f"{ROOT}[dev]"],
    ):
        if subprocess.run(command, check=False).returncode:
            return None
    stamp.touch()
    return inside


def main(arguments: list[str]) -> int:
    """Run the tests on each version; returns 0 if all pass."""
    lines, failed = list[str](), False
    pythons = found()
    for version in VERSIONS:
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
        command = [inside, "-m", "pytest", *workers, *(arguments or DEFAULTS)]
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

"""LangChain's tests of its agents, over both libraries, compared test by test.

They come with LangChain's source distribution, which pip downloads. A test that passes over
LangGraph and not over actorgraph must be in `known_failures.toml`, with a reason; an entry whose
test passes now must go.
"""

import subprocess
import tarfile
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.ecosystem.newest import versions
from tests.ecosystem.processes import LAYER, LIBRARIES, NATIVE, command, output, start

HERE = Path(__file__).parent
SHARE_REQUIRED = 0.95
SHARE_WANTED = 0.98
SHOWN_MAX = 100
OPTIONS = (
    "tests/unit_tests/agents",
    "-q",
    "-pno:cacheprovider",
    "--disable-socket",
    "--allow-unix-socket",
    "--tb=no",
)


def sources(python: str, folder: Path) -> Path:
    """Unpack the source distribution of the installed LangChain; returns its folder."""
    version = versions(python)["langchain"]
    words = ["download", "--no-deps", "--no-binary", ":all:", "--quiet"]
    wanted = f"langchain=={version}"
    subprocess.run([python, "-m", "pip", *words, "-d", str(folder), wanted], check=True)
    with tarfile.open(folder / f"langchain-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / f"langchain-{version}"


def passed(report: Path) -> tuple[set[str], set[str]]:
    """Read a report of pytest: the tests that passed, and those that failed."""
    good, bad = set[str](), set[str]()
    if not report.exists():
        return good, bad
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest has written it
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {part.tag for part in case}
        if kinds & {"failure", "error"}:
            bad.add(name)
        elif "skipped" not in kinds:
            good.add(name)
    return good, bad - good


def known() -> dict[str, str]:
    """Read the list: test -> reason."""
    entries = tomllib.loads((HERE / "known_failures.toml").read_text()).get("failure", [])
    return {test: entry["reason"] for entry in entries for test in entry["tests"]}


def run_suite(python: str, sdist: Path | None = None) -> bool:
    """Run the tests over both libraries at the same time; prints and returns whether it is well.

    Args:
        sdist: an unpacked source distribution; None downloads it.
    """
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as name:
        folder = Path(name)
        place = sdist or sources(python, folder)
        begun = {}
        for library in LIBRARIES:
            report = f"--junit-xml={folder / library}.xml"
            words = command(python, library, "pytest", *OPTIONS, report)
            begun[library] = start(words, place)
        for library, process in begun.items():
            lines = output(process, seconds=600.0).splitlines()
            print(f"LangChain's tests over {library}: {lines[-1] if lines else 'no output'}")
        native, _ = passed(folder / f"{NATIVE}.xml")
        layer, _ = passed(folder / f"{LAYER}.xml")
    return judge(native, layer, known())


def judge(native: set[str], layer: set[str], reasons: dict[str, str]) -> bool:
    """Print the share of tests that pass, and what the list lacks or has too much."""
    failing = sorted(native - layer)
    share = 1 - len(failing) / len(native) if native else 0.0
    new = [test for test in failing if test not in reasons]
    gone = [test for test in reasons if test in layer]
    print(
        f"{len(native) - len(failing)} of {len(native)} tests that pass over {NATIVE} pass over "
        f"{LAYER}: {share:.1%} (required {SHARE_REQUIRED:.0%}, wanted {SHARE_WANTED:.0%}); "
        f"{len(failing) - len(new)} failures are known"
    )
    for test in new[:SHOWN_MAX]:
        print(f"  fails, and isn't in known_failures.toml: {test}")
    if len(new) > SHOWN_MAX:
        print(f"  and {len(new) - SHOWN_MAX} more")
    for test in gone[:SHOWN_MAX]:
        print(f"  passes, and is in known_failures.toml: {test}")
    return share >= SHARE_REQUIRED and not new and not gone

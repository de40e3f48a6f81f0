"""The packages' own tests, over both libraries, compared test by test.

They come with the packages' source distributions, which pip downloads. A test that passes over
LangGraph and not over actorgraph must be in `known_failures.toml`, with a reason; an entry whose
test passes now must go.
"""

import subprocess
import tarfile
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.ecosystem.newest import versions
from tests.ecosystem.processes import LAYER, LIBRARIES, NATIVE, command, output, start

HERE = Path(__file__).parent
SHARE_REQUIRED = 0.95
SHARE_WANTED = 0.98
SHOWN_MAX = 100
OPTIONS = (
    "-q",
    "-pno:cacheprovider",
    "--disable-socket",
    "--allow-unix-socket",
    "--tb=no",
    "--continue-on-collection-errors",
    # Options of the packages' own settings may need plugins, or refuse what is new in pytest.
    "-oaddopts=",
    "-ostrict_config=false",
    "-ostrict_markers=false",
)


@dataclass(frozen=True)
class Suite:
    """The tests of one package.

    Attributes:
        tests: their folders or files in the source distribution.
        edits: file -> old text -> new text, before the tests run over either library.
        share: of the tests that pass over LangGraph, how many must pass over the layer. Small where
            most tests call LangGraph's private parts; each failure has a reason even so.
    """

    package: str
    tests: tuple[str, ...] = ("tests",)
    edits: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    share: float = SHARE_REQUIRED


WITHOUT_PICKLES = {
    "tests/memory_assert.py": {
        "serde=serde, factory=partial(PersistentDict, filename=filename)": "serde=serde",
        "self.stack.callback(os.remove, filename)": "os.remove(filename)",
    }
}
"""Their saver in memory keeps pickles in a file, which is refused; without it their tests run."""

WITHOUT_SERVERS = WITHOUT_PICKLES | {
    "tests/conftest.py": {
        "\nimport redis\n": "\n",
        "from langgraph.cache.redis import RedisCache\n": "",
        '        "sqlite_aes",\n': "",
    }
}
"""LangGraph's tests need no Redis then, nor a package that encrypts what the saver stores."""

BEHAVIOUR = tuple(
    f"tests/test_{name}.py"
    for name in (
        *("delta_channel_fork", "delta_channel_id_stability", "delta_channel_node_cache"),
        *("delta_channel_parallel_order", "delta_channel_run_input", "interrupt_migration"),
        *("interruption", "managed_values", "messages_state", "parent_command"),
        *("parent_command_async", "runtime", "stream_namespaces", "subgraph_persistence"),
        *("subgraph_persistence_async", "time_travel", "time_travel_async"),
    )
)
"""Files of LangGraph's own tests that call what is public; the others import its private parts."""

SUITES = (
    Suite("langchain", ("tests/unit_tests/agents",)),
    Suite("langgraph-supervisor"),
    Suite("langgraph-swarm"),
    Suite("langgraph-prebuilt", edits=WITHOUT_PICKLES, share=0.75),
    Suite("langgraph", BEHAVIOUR, edits=WITHOUT_SERVERS, share=0.9),
)


def sources(python: str, package: str, folder: Path) -> Path:
    """Unpack the source distribution of an installed package; returns its folder."""
    version = versions(python)[package]
    words = ["download", "--no-deps", "--no-binary", ":all:", "--quiet"]
    wanted = f"{package}=={version}"
    subprocess.run([python, "-m", "pip", *words, "-d", str(folder), wanted], check=True)
    name = f"{package.replace('-', '_')}-{version}"
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def edit(place: Path, edits: Mapping[str, Mapping[str, str]]) -> None:
    """Change files of the tests.

    Raises:
        ValueError: a file lacks the old text.
    """
    for name, texts in edits.items():
        text = (place / name).read_text()
        for old, new in texts.items():
            if old not in text:
                raise ValueError(f"{name} has no {old!r}: see what the new version has there")
            text = text.replace(old, new)
        (place / name).write_text(text)


def passed(report: Path, package: str) -> tuple[set[str], set[str]]:
    """Read a report of pytest: the tests that passed, and those that failed."""
    good, bad = set[str](), set[str]()
    if not report.exists():
        return good, bad
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest has written it
        name = f"{package}: {case.get('classname')}::{case.get('name')}"
        kinds = {part.tag for part in case}
        if kinds & {"failure", "error"}:
            bad.add(name)
        elif "skipped" not in kinds:
            good.add(name)
    return good - bad, bad


def known() -> dict[str, str]:
    """Read the list: test -> reason."""
    entries = tomllib.loads((HERE / "known_failures.toml").read_text()).get("failure", [])
    return {
        f"{entry['package']}: {test}": entry["reason"]
        for entry in entries
        for test in entry["tests"]
    }


def run_suites(python: str, sdist: Path | None = None) -> bool:
    """Run the tests of each package over both libraries; prints and returns whether all is well.

    Args:
        sdist: LangChain's unpacked source distribution; None downloads it.
    """
    # A list, since each is to be run even after one that fails.
    results = [
        run_suite(python, suite, sdist if suite.package == "langchain" else None)
        for suite in SUITES
    ]
    return all(results)


def run_suite(python: str, suite: Suite, sdist: Path | None = None) -> bool:
    """Run a package's tests over both libraries at the same time; see `run_suites`."""
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as name:
        folder = Path(name)
        place = sdist or sources(python, suite.package, folder)
        edit(place, suite.edits)
        begun = {}
        for library in LIBRARIES:
            report = f"--junit-xml={folder / library}.xml"
            words = command(python, library, "pytest", *suite.tests, *OPTIONS, report)
            begun[library] = start(words, place)
        for library, process in begun.items():
            lines = output(process, seconds=600.0).splitlines()
            last = lines[-1] if lines else "no output"
            print(f"Tests of {suite.package} over {library}: {last}", flush=True)
        native, _ = passed(folder / f"{NATIVE}.xml", suite.package)
        layer, _ = passed(folder / f"{LAYER}.xml", suite.package)
    of_it = {t: why for t, why in known().items() if t.startswith(f"{suite.package}: ")}
    return judge(native, layer, of_it, suite.share)


def judge(
    native: set[str], layer: set[str], reasons: dict[str, str], required: float = SHARE_REQUIRED
) -> bool:
    """Print the share of tests that pass, and what the list lacks or has too much."""
    failing = sorted(native - layer)
    share = 1 - len(failing) / len(native) if native else 0.0
    new = [test for test in failing if test not in reasons]
    gone = [test for test in reasons if test in layer]
    print(
        f"{len(native) - len(failing)} of {len(native)} tests that pass over {NATIVE} pass over "
        f"{LAYER}: {share:.1%} (required {required:.0%}, wanted {SHARE_WANTED:.0%}); "
        f"{len(failing) - len(new)} failures are known"
    )
    for test in new[:SHOWN_MAX]:
        print(f"  fails, and isn't in known_failures.toml: {test}")
    if len(new) > SHOWN_MAX:
        print(f"  and {len(new) - SHOWN_MAX} more")
    for test in gone[:SHOWN_MAX]:
        print(f"  passes, and is in known_failures.toml: {test}")
    return share >= required and not new and not gone

"""Extras: nothing needs one before it is used, and an error names the one that is missing."""

import subprocess
import sys
import venv
from textwrap import dedent

import pytest

from tests.packaging.extras import EXTRAS, PUBLIC
from tests.packaging.test_distributions import build
from tests.support.source_files import ROOT

HIDDEN = sorted({name for names, _ in EXTRAS.values() for name in names.split()})
# anyio brings it on older Pythons.
HIDDEN.remove("typing_extensions")

HIDE = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""

ERRORS = dedent(
    """
    import anyio
    from actorgraph import ActorSystem, Codec, InMemorySaver, PostgresSaver, START, StateGraph
    from actorgraph.errors import MissingExtraError
    from actorgraph.prebuilt import ChatCompletions
    from actorgraph.systems import metrics_registry

    graph = StateGraph(dict).add_node("a", lambda s: s).add_edge(START, "a")
    saver = InMemorySaver()
    graph = graph.compile(checkpointer=saver)
    system = ActorSystem({"a": graph}, saver=saver)

    async def ask():
        await ChatCompletions("m", base_url="http://127.0.0.1:1").ainvoke("Hello")

    async def open_database():
        async with PostgresSaver("postgresql://127.0.0.1:1/x"):
            pass

    CALLS = {
        "openai": lambda: anyio.run(ask),
        "postgres": lambda: anyio.run(open_database),
        "drawing": lambda: graph.get_graph().draw_png(),
        "encryption": lambda: Codec(keys={"a": bytes(32)}),
        "metrics": lambda: metrics_registry(system),
        "web": lambda: __import__("actorgraph.web").web.GraphRoutes,
        "studio": lambda: __import__("actorgraph.studio").studio.Studio,
    }
    for extra, call in CALLS.items():
        try:
            call()
        except MissingExtraError as error:
            print(extra, f"actorgraph[{extra}]" in error.do, error.do)
        else:
            print(extra, "raised nothing")
    """
)


def run(python, *lines, cwd):
    command = [python, "-c", "\n".join(lines)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_needs_an_extra_before_it_is_used(tmp_path):
    """
    With the packages of all extras hidden, every module for programs can be imported; what needs
    one raises MissingExtraError, which names it.
    """
    imports = [f"import actorgraph{name}" for name in PUBLIC]
    lines = [f"sys.path.insert(0, {str(ROOT)!r})", f"HIDDEN = {set(HIDDEN)!r}", HIDE, *imports]

    said = run(sys.executable, "import sys", *lines, ERRORS, cwd=tmp_path)

    assert [line for line in said.splitlines() if line.split()[1] != "True"] == []
    assert len(said.splitlines()) == 7


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("dist"), "-t", "wheel")[".whl"]


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_an_extra_brings_what_it_is_for(extra, wheel, tmp_path):
    """
    In a new environment with the wheel and one extra, its packages and its modules are imported;
    without any, everything that needs none.
    """
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    asked = f"{wheel}[{extra}]" if extra else str(wheel)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", asked]
    subprocess.run(pip, check=True, timeout=300)
    packages, modules = EXTRAS.get(extra, ("", " ".join(f"actorgraph{m}" for m in PUBLIC)))

    run(python, *(f"import {name}" for name in f"{packages} {modules}".split()), cwd=tmp_path)

"""`import langgraph` over the layer: modules, names, refusals, the runner and its report."""

import importlib
import json

import pytest

from actorgraph.cli.name_map import NAMES
from actorgraph.compat.modules import ABSENT, MODULES, PRIVATE
from tests.support import compat_page
from tests.support.layer import INSTALLED, over_layer, python

PUBLIC_NAMES = """
import importlib, json, pkgutil, warnings
from pathlib import Path

warnings.simplefilter("ignore")
import langgraph

def modules(path, prefix):
    for found in pkgutil.iter_modules([str(path)], prefix):
        yield found.name
        if found.ispkg:
            yield from modules(path / found.name.rpartition(".")[2], found.name + ".")

names = {}
for root in map(Path, langgraph.__path__):
    found = {*modules(root, "langgraph.")}
    for space in ("checkpoint", "store", "cache"):
        found |= {*modules(root / space, f"langgraph.{space}.")}
    for module in found:
        if any(part.startswith("_") for part in module.split(".")):
            continue
        try:
            made = importlib.import_module(module)
        except ImportError:  # of an extra that isn't installed
            continue
        own = [n for n, v in vars(made).items() if getattr(v, "__module__", None) == module]
        names[module] = [n for n in getattr(made, "__all__", own) if not n.startswith("_")]
print(json.dumps(names))
"""


class TestNames:
    def test_every_public_name_of_langgraph_is_here_or_has_a_way_out(self):
        """
        Each public name of each public module is in the table, or its absence has advice.
        """
        names = json.loads(python("-c", PUBLIC_NAMES).stdout)

        missing = {
            f"{module}.{name}"
            for module, own in names.items()
            for name in own
            if name not in MODULES.get(module, {})
            and not {f"{module}.{name}", module} & ABSENT.keys()
            and not module.startswith("langgraph.checkpoint.conformance")
        }

        assert len(names) > 40
        assert missing == set()

    def test_no_absence_is_of_a_name_that_is_here(self):
        """
        A name can't be in the table and in the list of absent names.
        """
        here = {f"{module}.{name}" for module, names in MODULES.items() for name in names}

        assert here & ABSENT.keys() == set()

    @pytest.mark.parametrize("module", sorted(MODULES))
    def test_each_home_exists(self, module):
        """
        The home of every name can be imported.
        """
        for home in MODULES[module].values():
            place, _, name = home.rpartition(".")
            assert hasattr(importlib.import_module(place), name), home

    def test_each_private_name_has_a_package_that_needs_it(self):
        """
        A private module is in the table only with the packages that import it.
        """
        private = {m for m in MODULES if any(p.startswith("_") for p in m.split("."))}
        private -= NAMES.keys()  # the codemod moves those too

        assert private - {"langgraph._internal"} <= {row.module for row in PRIVATE}
        assert all(row.needed_by for row in PRIVATE)

    def test_the_page_is_fresh(self):
        """
        The tables of docs/ecosystem.md are what `make promises` would write now.
        """
        assert compat_page.PAGE.read_text("utf-8") == compat_page.current()


class TestImports:
    def test_a_program_gets_our_classes_and_nothing_of_langgraph(self):
        """
        Imports of every form give actorgraph's own objects; no file of LangGraph is loaded.
        """
        lines = over_layer(
            """
            import sys
            import langgraph.graph.state
            from langgraph.graph import StateGraph
            from langgraph.types import *
            from langgraph import types
            import langgraph.checkpoint.memory as memory
            import actorgraph
            print(StateGraph is actorgraph.StateGraph, Command is actorgraph.Command)
            print(types.Send is actorgraph.Send, memory.InMemorySaver is actorgraph.InMemorySaver)
            print(langgraph.graph.state.CompiledStateGraph is actorgraph.CompiledStateGraph)
            files = [getattr(m, "__file__", None) or "" for m in sys.modules.values()]
            print([file for file in files if "/langgraph/" in file])
            """
        )

        assert lines == ["True True", "True True", "True", "[]"]

    def test_a_missing_name_is_refused_with_advice(self):
        """
        Names and modules that aren't here raise ImportError, which says what to do.
        """
        lines = over_layer(
            """
            for statement in (
                "from langgraph.types import Comand",
                "from langgraph.checkpoint.postgres import ShallowPostgresSaver",
                "import langgraph.pregel._algo",
                "from langgraph._internal._runnable import RunnableSeq",
                "import langgraph.grap",
            ):
                try:
                    exec(statement)
                except ImportError as error:
                    print(type(error).__name__, str(error).replace(chr(10), " "))
            from langgraph import types
            try:
                types.Comand
            except AttributeError as error:
                print(str(error).replace(chr(10), " "))
            """
        )

        assert lines[0].startswith("ImportError actorgraph has no name 'Comand'")
        assert "did you mean 'Command'" in lines[0]
        assert lines[1].startswith("ImportError actorgraph has no name 'ShallowPostgresSaver'")
        assert "Do this: use PostgresSaver, and keep few checkpoints" in lines[1]
        assert "no module 'langgraph.pregel._algo': it is private to LangGraph" in lines[2]
        assert "no name 'RunnableSeq'" in lines[3]
        assert "no module 'langgraph.grap'" in lines[4]
        assert "did you mean 'langgraph.graph'" in lines[4]
        assert "no name 'Comand' of 'langgraph.types'" in lines[5]
        assert "did you mean 'Command'" in lines[5]

    def test_a_probe_for_a_missing_module_gets_none(self):
        """
        `find_spec` of a module that isn't here returns None; importing it shows the advice.
        """
        lines = over_layer(
            """
            from importlib.util import find_spec
            print(find_spec("langgraph.checkpoint.redis"), find_spec("langgraph.cache.redis"))
            print(find_spec("langgraph.types").name)
            try:
                import langgraph.cache.redis
            except ModuleNotFoundError as error:
                print("pass an InMemoryCache" in str(error))
            """
        )

        assert lines == ["None None", "langgraph.types", "True"]

    def test_it_refuses_a_process_that_has_the_real_one(self):
        """
        After `import langgraph.types` of the real LangGraph, install() names that module.
        """
        done = python("-", given="import langgraph.types\n" + INSTALLED)

        assert done.returncode == 1
        assert "CompatError: LangGraph itself is imported already: langgraph" in done.stderr
        assert "python -m actorgraph.compat PROGRAM.py" in done.stderr

    def test_uninstalled_the_real_one_is_found_again(self):
        """
        After `uninstall()` an import gives LangGraph's own class; a second install() works.
        """
        lines = over_layer(
            """
            import actorgraph.compat
            from langgraph.types import Command
            actorgraph.compat.install()
            actorgraph.compat.uninstall()
            from langgraph.types import Command as real
            print(Command.__module__, real.__module__, actorgraph.compat.installed())
            """
        )

        assert lines == ["actorgraph.values.commands langgraph.types False"]


class TestRunner:
    def test_it_runs_a_program_with_its_arguments(self, tmp_path):
        """
        `sys.argv`, `__name__` and modules beside the program are as without the runner.
        """
        (tmp_path / "beside.py").write_text("import langgraph.types\n")
        program = tmp_path / "program.py"
        program.write_text(
            "import sys, beside\nfrom langgraph.types import Command\n"
            "print(__name__, sys.argv[1:], Command.__module__)\nsys.exit(4)\n"
        )

        done = python("-m", "actorgraph.compat", str(program), "--fast", "x")

        assert done.stdout.split("\n")[0] == "__main__ ['--fast', 'x'] actorgraph.values.commands"
        assert done.returncode == 4

    def test_its_paths_are_absolute(self, tmp_path):
        """
        A program named by a relative path, through a link, has the paths that Python gives it.
        """
        (tmp_path / "own").mkdir()
        program = tmp_path / "own" / "program.py"
        program.write_text("import sys\nprint(__file__, sys.path[0], __spec__, __package__)\n")
        (tmp_path / "link.py").symlink_to(program)
        start = f"import os, runpy, sys; os.chdir({str(tmp_path)!r}); "
        layer = (
            "sys.argv[1:] = ['link.py']; runpy.run_module('actorgraph.compat', None, '__main__')"
        )
        plain = "import subprocess; subprocess.run([sys.executable, 'link.py'])"

        ours, pythons = (python("-c", start + how).stdout for how in (layer, plain))

        assert ours == pythons == f"{tmp_path / 'link.py'} {program.parent} None None\n"

    def test_its_main_module_stays(self, tmp_path):
        """
        A function of atexit can pickle an object of a class of the program.
        """
        program = tmp_path / "program.py"
        program.write_text(
            "import atexit, pickle\n"
            "class Own: pass\n"
            "atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Own())))))\n"
        )

        done = python("-m", "actorgraph.compat", str(program))

        assert done.stdout == "<class '__main__.Own'>\n", done.stderr

    def test_child_processes_are_answered_too(self, tmp_path):
        """
        Children by subprocess, by spawn and their own children get actorgraph's names.
        """
        program = tmp_path / "program.py"
        program.write_text(
            "import multiprocessing, subprocess, sys\n"
            "ASK = 'from langgraph.types import Command; print(Command.__module__, flush=True)'\n"
            "NEST = f'import subprocess, sys; subprocess.run([sys.executable, \"-c\", {ASK!r}])'\n"
            "def ask():\n    exec(ASK)\n"
            "if __name__ == '__main__':\n"
            "    subprocess.run([sys.executable, '-c', ASK])\n"
            "    subprocess.run([sys.executable, '-c', NEST])\n"
            "    child = multiprocessing.get_context('spawn').Process(target=ask)\n"
            "    child.start()\n    child.join()\n"
        )

        done = python("-m", "actorgraph.compat", str(program))

        assert done.stdout.split() == ["actorgraph.values.commands"] * 3, done.stderr

    def test_children_run_the_sitecustomize_that_was_there(self, tmp_path):
        """
        A `sitecustomize` further down the path still runs in a child, once.
        """
        (tmp_path / "sitecustomize.py").write_text("print('customised', flush=True)\n")
        program = tmp_path / "program.py"
        program.write_text(
            "import os, subprocess, sys\n"
            f"os.environ['PYTHONPATH'] += os.pathsep + {str(tmp_path)!r}\n"
            "ASK = 'import sitecustomize, langgraph.types as t; print(t.Command.__module__)'\n"
            "subprocess.run([sys.executable, '-c', ASK])\n"
        )

        done = python("-m", "actorgraph.compat", str(program))

        assert done.stdout.split() == ["customised", "actorgraph.values.commands"], done.stderr

    def test_it_runs_a_module(self, tmp_path):
        """
        `-m MODULE` runs it as Python does.
        """
        done = python(
            "-m",
            "actorgraph.compat",
            "-m",
            "timeit",
            "-n",
            "1",
            "-r",
            "1",
            "import langgraph.graph",
        )

        assert (done.returncode, done.stderr) == (0, "")

    def test_its_report_names_the_missing_ones_and_their_place(self, tmp_path):
        """
        With --report, a missing name is printed with file and line, and the exit code is 3.
        """
        program = tmp_path / "program.py"
        program.write_text(
            "from langgraph.types import Command\ntry:\n"
            "    from langgraph.types import Nothing\nexcept ImportError:\n    pass\n"
        )

        done = python("-m", "actorgraph.compat", "--report", str(program))

        assert done.returncode == 3
        assert f"missing  langgraph.types.Nothing  ({program}:3)" in done.stderr
        assert "1 names from actorgraph, 1 missing" in done.stderr

    def test_its_report_names_a_missing_module_once(self, tmp_path):
        """
        A name that Python asks the package for, and then imports as a module, is one line.
        """
        program = tmp_path / "program.py"
        program.write_text(
            "try:\n    from langgraph.cache import redis\nexcept ImportError: pass\n"
        )

        done = python("-m", "actorgraph.compat", "--report", str(program))

        assert f"missing  langgraph.cache.redis  ({program}:2)" in done.stderr
        assert "0 names from actorgraph, 1 missing" in done.stderr

    def test_without_a_program_it_shows_its_usage(self):
        """
        Exit code 2, and one line about how to call it.
        """
        done = python("-m", "actorgraph.compat")

        assert (done.returncode, done.stderr[:6]) == (2, "usage:")

"""The finder that answers `import langgraph...`, and the modules that it makes.

A module is made from its row of the table (`modules.py`). Its names are imported at their first
use, so that a program pays only for what it asks for, and so that `report` knows what that was.
"""

import dis
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any, cast

from actorgraph.compat.modules import ABSENT, MODULES, PRIVATE
from actorgraph.compat.portions import OWN, ROOT, Portions, find_foreign, is_foreign
from actorgraph.compat.report import note
from actorgraph.errors import CompatError, did_you_mean
from actorgraph.runtime.own_spans import OwnSpans

TABLE = 'docs/ecosystem.md, "Names"'


class LangGraphModule(ModuleType):
    """One module of `langgraph`, whose names are ours."""

    is_compat_module = True

    def __getattr__(self, name: str) -> Any:
        """Import a name at its first use.

        Raises:
            ImportError: `from ... import` names what isn't in the table.
            AttributeError: anything else does.
        """
        module = self.__name__
        home = MODULES[module].get(name)
        if home is None and name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if home is None:
            below = f"{module}.{name}"
            if below in MODULES:
                return import_module(below)
            if module in OWN and is_foreign(below) and find_spec(below):
                # Python imports it now: this was the first half of `from package import module`.
                raise AttributeError(f"module {module!r} has no attribute {name!r}")
            note(module, name, "")
            text = _missing(module, name)
            # Python's own ImportError would drop the text of an AttributeError.
            if _is_from_import(_asking()):
                raise ImportError(text, name=module)
            raise AttributeError(text)
        package, _, own = home.rpartition(".")
        found = getattr(import_module(package), own)
        note(module, name, home)
        vars(self)[name] = found
        return found

    def __dir__(self) -> list[str]:
        """List the names of the table."""
        return sorted({*vars(self), *MODULES[self.__name__]})


class LangGraphFinder(MetaPathFinder, Loader):
    """Finds `langgraph` and every module below it, and nothing else.

    Modules of other distributions there are found by Python's other finders (`portions.py`).
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Answer for `langgraph` and its modules, and find those of other distributions.

        Returns: None to a probe for any other module.
        Raises:
            ModuleNotFoundError: an import, of a module that is neither.
        """
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        if fullname in MODULES:
            below = any(module.startswith(f"{fullname}.") for module in MODULES)
            spec = ModuleSpec(fullname, self, origin="actorgraph.compat", is_package=below)
            if fullname in OWN:
                spec.submodule_search_locations = cast("list[str]", Portions(fullname))
            return spec
        foreign = is_foreign(fullname)
        found = find_foreign(fullname, path, target, behind=self) if foreign else None
        if found is not None:
            return found
        inside = foreign and fullname.rpartition(".")[0] not in OWN
        if not inside:
            note(fullname, "", "")
        if inside or not _is_import(_asking()):
            return None
        raise ModuleNotFoundError(_missing(fullname, ""), name=fullname)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make an empty module; its names come at their first use."""
        return LangGraphModule(spec.name, MODULES[spec.name].get("__doc__"))

    def exec_module(self, module: ModuleType) -> None:
        """Fill in what `from ... import *` takes, and what a module says of itself."""
        names = MODULES[module.__name__]
        vars(module)["__all__"] = [name for name in names if not name.startswith("_")]


FINDER = LangGraphFinder()


def installed() -> bool:
    """Whether `import langgraph` is answered from actorgraph."""
    return FINDER in sys.meta_path


def install(*, own_spans: bool = False) -> None:
    """Answer every later `import langgraph...` of this process from actorgraph.

    A second call does nothing.

    Args:
        own_spans: whether runs begin OpenTelemetry's spans of this library's own, beside those
            of the program's tracers; default only the tracers', as over LangGraph.
    Raises:
        CompatError: modules of the real LangGraph were imported before.
    """
    if installed():
        return
    real = sorted(
        name
        for name, module in sys.modules.items()
        if (name == ROOT or name.startswith(f"{ROOT}.")) and not isinstance(module, LangGraphModule)
    )
    if real:
        shown = ", ".join(real[:3]) + (f" and {len(real) - 3} more" if len(real) > 3 else "")
        raise CompatError(
            f"LangGraph itself is imported already: {shown}",
            do="call actorgraph.compat.install() first, before anything imports langgraph; "
            "or run the program with `python -m actorgraph.compat PROGRAM.py`",
        )
    OwnSpans.on = own_spans
    sys.meta_path.insert(0, FINDER)


def uninstall() -> None:
    """Let `import langgraph` find the real one again; for tests.

    Packages that have imported names keep them.
    """
    if installed():
        sys.meta_path.remove(FINDER)
        OwnSpans.on = True
    # Those of other distributions go, too: they have our names.
    for name in [n for n in sys.modules if n == ROOT or n.startswith(f"{ROOT}.")]:
        del sys.modules[name]


def _is_from_import(frame: FrameType | None) -> bool:
    """Whether a frame executes the second half of `from module import name`."""
    if frame is None:
        return False
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap.get("IMPORT_FROM")


def _is_import(frame: FrameType | None) -> bool:
    """Whether a finder is asked by an import, and not by `importlib.util.find_spec`."""
    above = frame.f_back if frame else None
    return above is not None and above.f_code.co_name == "_find_and_load_unlocked"


def _asking() -> FrameType | None:
    """Find the frame that called the method which calls this."""
    here = inspect.currentframe()
    method = here.f_back if here else None
    return method.f_back if method else None


def _missing(module: str, name: str) -> str:
    """The error's text: the missing name, whether it is private, and the place of the table."""
    where = f"module {module!r}" if not name else f"name {name!r} of {module!r}"
    text = f"actorgraph has no {where}"
    way_out = ABSENT.get(f"{module}.{name}" if name else module) or ABSENT.get(module)
    private = any(part.startswith("_") and not part.startswith("__") for part in module.split("."))
    if way_out and private:
        return f"{text}: it is private to LangGraph\n  Do this: {way_out}"
    if private or name.startswith("_"):
        known = ", ".join(sorted({row.module for row in PRIVATE}))
        return (
            f"{text}: it is private to LangGraph. Private modules that are here: {known}. {TABLE}"
        )
    if not name and is_foreign(module) and module.count(".") > 1:
        package = "-".join(module.split(".")[:3])
        return f"{text}\n  Do this: install the package that has it, such as {package}"
    if way_out:
        return f"{text}\n  Do this: {way_out}"
    hint = did_you_mean(name or module, [*(MODULES.get(module) or MODULES)])
    return f"{text}\n  Do this: {hint}; the names that are here: {TABLE}"

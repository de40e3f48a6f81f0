"""Gather the facts of one call of `actorgraph doctor`, and judge them."""

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actorgraph.checkpoints import JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.cli.doctor.database_facts import database_facts, saver_facts
from actorgraph.cli.doctor.diagnosis import Diagnosis
from actorgraph.cli.doctor.facts import Examined, ProgramFacts
from actorgraph.cli.doctor.judging import diagnose
from actorgraph.cli.doctor.program_facts import (
    input_facts,
    installed_packages,
    program_facts,
    read_module,
)
from actorgraph.cli.doctor.served_facts import stores_in, systems_in
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.output import without_password
from actorgraph.cli.places import load_object
from actorgraph.cli.program_check import check_program
from actorgraph.errors import ActorGraphWarning
from actorgraph.graph import CompiledStateGraph, StateGraph
from actorgraph.internals import ThreadCheckReport, innermost
from actorgraph.ports import Saver


class Asked(NamedTuple):
    """The arguments of `actorgraph doctor`.

    Attributes:
        database: a path or an address; "" for the program's own.
        app: "module:name"; "" for none.
        given: the input as JSON, or "@module:name" of a Python value; "" for none.
    """

    database: str = ""
    app: str = ""
    backend: str | None = None
    host: str = ""
    given: str = ""


class Report(msgspec.Struct, frozen=True):
    """The result of `actorgraph doctor`.

    Attributes:
        examined: names of the examined things: graphs, systems, applications, the database.
        findings: errors first.
    """

    examined: tuple[str, ...]
    findings: tuple[Diagnosis, ...]


def is_database(target: str) -> bool:
    """Whether TARGET names a database, and not a program."""
    if "://" in target or Path(target).exists():
        return not target.endswith(".py")
    return ":" not in target[2:] and not target.endswith(".py")


def places_of(target: str | None, db: str | None, app: str | None) -> tuple[str, str]:
    """Distinguish the database and the program of the arguments; "" for one that isn't named.

    Raises:
        UsageError: one is named twice, or none is.
    """
    if target and is_database(target):
        if db:
            raise UsageError(f"{target!r} and --db both name a database", do="name it once")
        db = target
    elif target:
        if app:
            raise UsageError(f"{target!r} and --app both name a program", do="name it once")
        app = target
    if not db and not app:
        raise UsageError(
            "nothing to examine", do="name a database or a program: actorgraph doctor app:graph"
        )
    return db or "", app or ""


async def examine(asked: Asked) -> Report:
    """Gather the facts and judge them.

    Raises:
        UsageError: an argument is invalid.
    """
    named: Any = None
    program = None
    if asked.app:
        named, program = load_program(asked.app)
    graph = _graph_of(named)
    if asked.given and graph is None:
        raise UsageError("--input needs a graph", do="name it: actorgraph doctor app:graph --input")
    saver = _saver_of(named)
    place = asked.database or _file_of(saver)
    database = None
    if place:
        database = await database_facts(place, getattr(saver, "codec", None))
    elif _is_of_program(saver):
        database = await saver_facts(saver)
    found = Examined(
        program=program,
        database=database,
        threads=await _threads(place, named) if database and not database.error else None,
        given=input_facts(graph, _input(asked.given)) if asked.given and graph else None,
        backend=asked.backend,
        host=asked.host,
    )
    return Report(tuple(_examined(found)), tuple(diagnose(found)))


async def _threads(place: str, named: Any) -> ThreadCheckReport | None:
    """Check the stored threads and settings against the program's graphs, if it has some.

    Args:
        place: "" for the program's own saver.
    """
    graphs = {n: g for system in systems_in(named) for n, g in system.graphs.items()}
    if isinstance(named, CompiledStateGraph):
        graphs = {named.plan.name: named}
    if not graphs:
        return None
    return await check_program(place or None, graphs, stores_in(named))


def load_program(name: str) -> tuple[Any, ProgramFacts]:
    """Import a program, and gather its facts; one that can't be imported is a fact too.

    Raises:
        UsageError: the module or the name doesn't exist.
    """
    try:
        with warnings.catch_warnings():  # the findings have what the library warns about
            warnings.simplefilter("ignore", ActorGraphWarning)
            named, _ = load_object(name)
    except UsageError:
        raise
    except ModuleNotFoundError as error:
        return None, _not_imported(name, str(error), error.name or "")
    except Exception as error:  # noqa: BLE001 - a program may raise anything when it is imported
        return None, _not_imported(name, f"{type(error).__name__}: {error}", "")
    if isinstance(named, StateGraph):
        named = named.compile()
    module = sys.modules.get(name.rpartition(":")[0].removesuffix(".py").rpartition("/")[2])
    if module is named:
        return named, _all_of(name, named)
    return named, program_facts(name, named, module)


def _all_of(name: str, module: Any) -> ProgramFacts:
    """Gather the facts of all graphs, systems and applications of a module."""
    facts = program_facts(name, None, module)
    for found in list(vars(module).values()):
        if getattr(type(found), "__module__", "") != "builtins":
            more = program_facts(name, found)
            facts = replace(
                facts,
                graphs=(*facts.graphs, *more.graphs),
                systems=(*facts.systems, *more.systems),
                served=(*facts.served, *more.served),
            )
    return facts


def _not_imported(name: str, error: str, package: str) -> ProgramFacts:
    """Make the facts of a program that can't be imported, with what its source says."""
    source = Path(f"{name.rpartition(':')[0] or name}".removesuffix(".py") + ".py")
    module = read_module(source) if source.is_file() else None
    return ProgramFacts(
        name,
        error=" ".join(error.split()),
        missing=package.partition(".")[0],
        modules=() if module is None else (module,),
        installed=installed_packages(),
    )


def _graph_of(named: Any) -> CompiledStateGraph | None:
    if isinstance(named, CompiledStateGraph):
        return named
    graphs = [graph for system in systems_in(named) for graph in system.graphs.values()]
    return graphs[0] if len(graphs) == 1 else None


def _saver_of(named: Any) -> Any:
    if isinstance(named, CompiledStateGraph):
        return named.checkpointer
    systems = systems_in(named)
    return systems[0].saver if systems else None


def _file_of(saver: Any) -> str:
    """Return the file or folder of a saver of the library, if there is one by now."""
    saver = innermost(saver)
    if isinstance(saver, SqliteSaver | JsonlSaver) and Path(saver.path).exists():
        return saver.path
    return ""


def _is_of_program(saver: Any) -> bool:
    """Whether a saver is of a kind that the library doesn't know: it is asked itself."""
    ours = isinstance(innermost(saver), SqliteSaver | JsonlSaver | PostgresSaver)
    return isinstance(saver, Saver) and saver.durable and not ours


def _input(text: str) -> object:
    if text.startswith("@"):
        return load_object(text[1:])[0]
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"--input is not JSON: {error}",
            do='write {"key": 1}, or @module:name of a Python value',
        ) from error


def _examined(found: Examined) -> list[str]:
    names: list[str] = []
    if found.program is not None:
        names += [f"graph {graph.name}" for graph in found.program.graphs]
        names += ["system of " + ", ".join(sorted(s.graphs)) for s in found.program.systems]
        names += [f"{app.kind} at {app.path or '/'}" for app in found.program.served]
    if found.database is not None:
        names.append(f"database {without_password(found.database.place)}")
    return names

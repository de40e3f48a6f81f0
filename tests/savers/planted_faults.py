"""Faults of savers, each planted in a wrapper around a saver that works, and the check for it.

A fault changes the requests that reach the saver, its outcomes, the queries or the answers, as a
saver would that doesn't carry out a part of the contract.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from actorgraph.values.alarms import ListAlarms, TakeAlarm
from actorgraph.values.commits import (
    EPOCH_ANY,
    HOLDER_ANY,
    CheckpointRow,
    Claim,
    Commit,
    Committed,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Refused,
    StoredCheckpoint,
)
from actorgraph.values.retention import (
    CopyThread,
    CountCheckpoints,
    DeleteCheckpoints,
    DeleteRuns,
    DeleteThread,
    Expire,
    HoldWhole,
    KeepLast,
    KeepLatest,
    ListThreads,
    Reseal,
    Sweep,
    Vacuum,
)
from actorgraph.values.systems import (
    AdoptRun,
    AskCancel,
    CountWaiting,
    DropOwner,
    ForgetRun,
    ListRuns,
    ListWaiting,
    OwnerRow,
    PutRun,
    ReadEvents,
    RenewOwner,
    RunRow,
    SealRun,
    SearchRuns,
    SetRun,
    StoreEvents,
    TrimRuns,
)

Change = Callable[[Any], Any]
FAR = 2**60
replace = msgspec.structs.replace


class Fault(msgspec.Struct, frozen=True):
    """One fault.

    Attributes:
        request: changes a request; None leaves it out, and it is acknowledged all the same.
        query: changes a query.
        answer: changes an answer.
        outcome: changes an outcome.
        order: 1, or -1 for a batch that is stored backwards.
        refused: what becomes of a batch after a refusal: "" as it should be; "lost" if requests
            behind it are acknowledged only; "all" if it refuses the others too; "kept" if the rows
            of the refused commit are stored all the same.
        covers: the parts of requests and queries that it leaves out: "Type.field" or "Type".
    """

    request: Change = lambda given: given
    query: Change = lambda given: given
    answer: Change = lambda given: given
    outcome: Change = lambda given: given
    order: int = 1
    refused: str = ""
    covers: tuple[str, ...] = ()


class Planted:
    """A saver with a fault: the port's methods alone."""

    immediate = False

    def __init__(self, saver: Any, fault: Fault) -> None:
        self._saver, self._fault = saver, fault
        self.durable = saver.durable
        self.codec = saver.codec
        self.keeps_runs = saver.keeps_runs
        self.routes_runs = getattr(saver, "routes_runs", False)
        self.keeps_alarms = getattr(saver, "keeps_alarms", False)

    async def open(self) -> None:
        """Open the saver."""
        await self._saver.open()

    async def commit(self, batch: Sequence[Any]) -> list[Any]:
        """Commit what the fault leaves of a batch."""
        changed = [self._fault.request(request) for request in batch][:: self._fault.order]
        kept = [request for request in changed if request is not None]
        outcomes = iter(await self._stored(kept))
        found = [Committed() if request is None else next(outcomes) for request in changed]
        return [self._fault.outcome(outcome) for outcome in found][:: self._fault.order]

    async def _stored(self, batch: list[Any]) -> list[Any]:
        """The outcomes of a batch, with the fault's handling of a refusal."""
        how = self._fault.refused
        if how != "lost":
            outcomes = await self._saver.commit(batch) if batch else []
            refused = [number for number, o in enumerate(outcomes) if isinstance(o, Refused)]
            if refused and how == "all":
                return [outcomes[refused[0]]] * len(batch)
            for number in refused if how == "kept" else ():
                await self._saver.commit([unclaimed(batch[number])])
            return outcomes
        found: list[Any] = []
        for request in batch:
            lost = any(isinstance(outcome, Refused) for outcome in found)
            found += [Committed()] if lost else await self._saver.commit([request])
        return found

    async def query(self, queries: Sequence[Any]) -> list[Any]:
        """Answer what the fault makes of the queries."""
        answers = await self._saver.query([self._fault.query(query) for query in queries])
        return [self._fault.answer(answer) for answer in answers]

    async def close(self) -> None:
        """Close the saver."""
        await self._saver.close()


def unclaimed(request: Any) -> Any:
    """A refused commit as one that no claim and no head is compared for."""
    if not isinstance(request, Commit):
        return request
    free = {"run": None, "epoch": EPOCH_ANY, "claim": None, "owner": None, "ends": None}
    return replace(request, **free, strict=False)


def changed(kind: type, **fields: Any) -> Change:
    """A change of fields of the requests, queries or answers of a kind."""
    return lambda given: replace(given, **fields) if isinstance(given, kind) else given


def lost(*kinds: type) -> Fault:
    """Requests of these kinds are acknowledged and not carried out."""
    names = tuple(kind.__name__ for kind in kinds)
    return Fault(request=lambda given: None if isinstance(given, kinds) else given, covers=names)


def named(kind: type, fields: Iterable[str]) -> tuple[str, ...]:
    """The names of fields of a request or query."""
    return tuple(f"{kind.__name__}.{field}" for field in fields)


def asked(kind: type, **fields: Any) -> Fault:
    """A part of a query is not looked at."""
    return Fault(query=changed(kind, **fields), covers=named(kind, fields))


def given(kind: type, **fields: Any) -> Fault:
    """A part of a request is not looked at."""
    return Fault(request=changed(kind, **fields), covers=named(kind, fields))


def put(**fields: Any) -> Fault:
    """A column of a new run is not stored."""

    def change(request: Any) -> Any:
        if not isinstance(request, PutRun):
            return request
        return replace(request, row=replace(request.row, **fields))

    return Fault(request=change, covers=named(RunRow, fields))


def claimed(**fields: Any) -> Fault:
    """A part of a claim is not looked at."""

    def change(request: Any) -> Any:
        claim = request.claim if isinstance(request, Commit) else None
        return request if claim is None else replace(request, claim=replace(claim, **fields))

    return Fault(request=change, covers=named(Claim, fields))


def inside(part: str, **fields: Any) -> Fault:
    """A column of a commit's rows is not stored."""

    def change(request: Any) -> Any:
        if not isinstance(request, Commit):
            return request
        rows = tuple(replace(row, **fields) for row in getattr(request, part))
        return replace(request, **{part: rows})

    kind = LedgerRow if part == "ledger" else CheckpointRow
    return Fault(request=change, covers=named(kind, fields))


def based_on_the_head(request: Any) -> Any:
    """A commit whose checkpoints continue from the head, whatever they name."""
    if not isinstance(request, Commit) or request.run is None or not request.checkpoints:
        return request
    first = replace(request.checkpoints[0], parent=request.head)
    return replace(request, checkpoints=(first, *request.checkpoints[1:]))


def read(**fields: Any) -> Fault:
    """A part of each checkpoint is not read."""

    def change(answer: Any) -> Any:
        if isinstance(answer, Loaded) and answer.checkpoint is not None:
            return replace(answer, checkpoint=replace(answer.checkpoint, **fields))
        if isinstance(answer, list):
            return [
                replace(row, **fields) if isinstance(row, StoredCheckpoint) else row
                for row in answer
            ]
        return answer

    return Fault(answer=change)


def backwards(answer: Any) -> Any:
    """A list in the other order."""
    return answer[::-1] if isinstance(answer, list) else answer


def backwards_ledger(answer: Any) -> Any:
    """A checkpoint whose writes are in the other order."""
    if not isinstance(answer, Loaded) or answer.checkpoint is None:
        return answer
    point = answer.checkpoint
    return replace(answer, checkpoint=replace(point, ledger=point.ledger[::-1]))


def rows_of(kind: type, **fields: Any) -> Fault:
    """A column of the rows of a list is wrong."""

    def change(answer: Any) -> Any:
        if not isinstance(answer, list):
            return answer
        return [replace(row, **fields) if isinstance(row, kind) else row for row in answer]

    return Fault(answer=change)


def acknowledged(outcome: Any) -> Any:
    """An outcome that says stored of what was refused."""
    return Committed() if isinstance(outcome, Refused) else outcome


def sealed_but(part: str) -> Fault:
    """Payloads of one kind of rows are not replaced."""

    class Partly:
        def __init__(self, resealer: Any) -> None:
            self._resealer = resealer

        def __getattr__(self, name: str) -> Any:
            if name == part:
                return lambda *given: getattr(given[-1], "payload", given[-1])
            return getattr(self._resealer, name)

    def change(request: Any) -> Any:
        if isinstance(request, Reseal | CopyThread) and request.resealer is not None:
            return replace(request, resealer=Partly(request.resealer))
        return request

    return Fault(request=change)


def still_set(request: Any) -> Any:
    """A commit that doesn't take its thread's alarm away."""
    keeps = isinstance(request, Commit) and request.alarm is not None and not request.alarm.at
    return replace(request, alarm=None) if keeps else request


def taken(outcome: Any) -> Any:
    """An outcome that says that an alarm was taken."""
    return replace(outcome, sequence=1) if isinstance(outcome, Committed) else outcome


def running_after_takeover(row: Any) -> Any:
    """A run that was taken over, as if its former owner still ran it."""
    taken = row.status == "pending" and row.claimed and row.attempts > 1
    return replace(row, status="running") if taken else row


def taken_as_running(answer: Any) -> Any:
    """Runs of a list that stay running when they are taken over."""
    if not isinstance(answer, list):
        return answer
    return [running_after_takeover(r) if isinstance(r, RunRow) else r for r in answer]


COLUMNS, LEDGER = "rows: every column is read", "rows: the ledger is read whole"
OLD, FOUND = "rows: old rows expire", "rows: threads and counts"
SEARCH, LISTED = "runs: a search is newest first", "runs: runs are found"
EVENTS, OFFERS = "runs: events are kept in order", "runs: waiting runs are offered"
LEASES, TRIMS = "runs: leases end", "runs: open runs are not removed"
TAKEOVER, ASKS = "runs: a takeover fences the dead", "runs: cancellations are asked for once"
INPUT, SEALED = "rows: claims keep their input", "rows: payloads are replaced whole"
WHOLE = "runs: a run is stored whole"
TAKEN = "alarms: an alarm is taken once"
DEATHS, BUILDS = "runs: attempts and deaths are kept", "runs: builds and times are kept"
BATCH = "runs: a refused request leaves the others"
ROUTED = {"builds", "priorities", "times", *(f"{p} of offers" for p in ("builds", "times"))}
ROUTED |= {"builds of counts", "times of counts"}
"""Faults of savers with `routes_runs` alone."""

FAULTS: dict[str, tuple[Fault, str]] = {
    # Commits.
    "answers aren't looked for": (claimed(resumes=""), "rows: an answer counts once"),
    "bases aren't looked for": (
        Fault(request=based_on_the_head),
        "rows: a branch needs its base",
    ),
    "a claim's input": (claimed(input=None), INPUT),
    "a claim's mode": (claimed(mode="sync"), INPUT),
    "a claim's holder": (claimed(holder=HOLDER_ANY), "rows: a claim names the one before"),
    "a strict head": (given(Commit, strict=False), "claims: a strict save names the head"),
    "an end": (given(Commit, ends=None), "claims: one run holds the claim"),
    "an epoch": (given(Commit, epoch=EPOCH_ANY), TAKEOVER),
    "an owner": (given(Commit, owner=None), "runs: claims change the status"),
    "a namespace": (given(Commit, namespace=""), FOUND),
    "conflicts are acknowledged": (
        Fault(outcome=acknowledged),
        "claims: the head is compared and set",
    ),
    "a batch backwards": (Fault(order=-1), "claims: order is that of storing"),
    "requests behind a refused one": (Fault(refused="lost"), BATCH),
    "requests beside a refused one": (Fault(refused="all"), BATCH),
    "a refused commit's rows": (
        Fault(refused="kept"),
        "rows: a refused request leaves no rows",
    ),
    # Columns.
    "parents": (inside("checkpoints", parent=None), COLUMNS),
    "steps": (inside("checkpoints", step=0), COLUMNS),
    "sources": (inside("checkpoints", source="update"), COLUMNS),
    "runs of checkpoints": (inside("checkpoints", run=None), COLUMNS),
    "metadata": (inside("checkpoints", metadata="{}"), COLUMNS),
    "next": (inside("checkpoints", next="[]"), "rows: next nodes are read"),
    "values": (inside("checkpoints", blobs=()), "lists: values are shared by version"),
    "items": (inside("checkpoints", ranges=(), merges=()), "lists: rows grow and merge"),
    "merges": (inside("checkpoints", merges=()), "lists: rows grow and merge"),
    "asks": (inside("ledger", asks=False), LEDGER),
    "paths": (inside("ledger", path=""), LEDGER),
    "payloads": (inside("ledger", payload=b""), LEDGER),
    "tasks": (inside("ledger", task=b"z" * 16), LEDGER),
    "indexes": (inside("ledger", index=0), LEDGER),
    "generations": (inside("ledger", generation=0), "claims: the ledger keeps the first"),
    # Removals and copies.
    "deleted threads": (lost(DeleteThread), "claims: a delete ends the epoch"),
    "deleted checkpoints": (
        lost(DeleteCheckpoints),
        "rows: removals of others stop no run",
    ),
    "namespaces of removals": (given(DeleteCheckpoints, namespace=""), FOUND),
    "deleted runs": (lost(DeleteRuns), "rows: a removal stops the run"),
    "all but the newest": (lost(KeepLatest), "lists: lists outlive removals and copies"),
    "all but the last": (lost(KeepLast), "rows: removals of others stop no run"),
    "numbers that are kept": (
        given(KeepLast, count=99),
        "rows: removals of others stop no run",
    ),
    "copies": (lost(CopyThread), FOUND),
    "expiries": (lost(Expire), OLD),
    "an expiry's count": (given(Expire, count=1), OLD),
    "an expiry's time": (given(Expire, before=FAR), OLD),
    "sweeps": (lost(Sweep), "rows: a sweep frees what is left over"),
    "vacuums": (lost(Vacuum), "rows: a vacuum keeps what is stored"),
    "new payloads": (lost(Reseal), SEALED),
    "new payloads of copies": (given(CopyThread, resealer=None), SEALED),
    "new payloads of values": (sealed_but("value"), SEALED),
    "new payloads of items": (sealed_but("items"), SEALED),
    "new payloads of writes": (sealed_but("writes"), SEALED),
    "new payloads of inputs": (sealed_but("input"), SEALED),
    "whole values": (lost(HoldWhole), "deltas: whole values need no ancestors"),
    "counts of removals": (
        Fault(outcome=changed(Committed, removed=0)),
        "rows: removals of others stop no run",
    ),
    "counts of sweeps": (
        Fault(outcome=changed(Committed, freed=0)),
        "rows: a sweep frees what is left over",
    ),
    "sequences of outcomes": (
        Fault(outcome=changed(Committed, sequence=0)),
        "claims: order is that of storing",
    ),
    # Queries.
    "after": (asked(ListCheckpoints, after=None), "filters: pages start after a position"),
    "oldest first": (
        asked(ListCheckpoints, oldest_first=False),
        "filters: pages start after a position",
    ),
    "before": (asked(ListCheckpoints, before=None), "claims: order is that of storing"),
    "limit": (asked(ListCheckpoints, limit=None), "filters: pages start after a position"),
    "where": (asked(ListCheckpoints, where=()), "filters: newest first"),
    "bare": (asked(ListCheckpoints, bare=False), LEDGER),
    "namespaces of lists": (
        asked(ListCheckpoints, namespace=None),
        "rows: next nodes are read",
    ),
    "ancestors": (
        asked(LoadCheckpoint, ancestors=False),
        "deltas: values are read with their ancestors",
    ),
    "named checkpoints": (asked(LoadCheckpoint, id=None), "basic: latest and named"),
    "namespaces of loads": (asked(LoadCheckpoint, namespace=""), FOUND),
    "ancestors of lists": (
        asked(ListCheckpoints, ancestors=False),
        "deltas: values are read with their ancestors",
    ),
    "inputs": (asked(ListThreads, inputs=False), INPUT),
    "runs of threads": (asked(ListThreads, runs=None), FOUND),
    "older threads": (asked(ListThreads, older=None), OLD),
    "namespaces of counts": (asked(CountCheckpoints, namespace=None), FOUND),
    # Answers.
    "epochs": (Fault(answer=changed(Loaded, epoch=1)), "claims: a delete ends the epoch"),
    "open runs": (Fault(answer=changed(Loaded, open_run=None)), "claims: an open run is found"),
    "heads": (Fault(answer=changed(Loaded, head=None)), "claims: order is that of storing"),
    "versions": (
        Fault(answer=changed(Loaded, version_floor=0)),
        "lists: values are shared by version",
    ),
    "writes": (read(ledger=()), LEDGER),
    "ends of lists": (read(ends={}), "lists: rows grow and merge"),
    "sequences": (read(sequence=1), "claims: order is that of storing"),
    "writes backwards": (Fault(answer=backwards_ledger), LEDGER),
    "lists backwards": (Fault(answer=backwards), "claims: order is that of storing"),
    # Runs of systems.
    "new runs": (lost(PutRun), "runs: a run is stored whole"),
    "busy threads": (given(PutRun, if_busy="enqueue"), "runs: a busy thread rejects"),
    "graphs": (put(graph="z"), WHOLE),
    "attempts of new runs": (put(attempts=9), WHOLE),
    "owners of new runs": (put(owner=None), WHOLE),
    "times of acceptance": (put(created=0), WHOLE),
    "metadata of runs": (put(metadata="{}"), WHOLE),
    "reasons of runs": (put(reason="another"), WHOLE),
    "payloads of runs": (put(payload=b""), WHOLE),
    "statuses": (lost(SetRun), LISTED),
    "reasons": (given(SetRun, reason=""), LISTED),
    "attempts": (given(SetRun, attempts=None), LISTED),
    "takeovers": (lost(AdoptRun), TAKEOVER),
    "attempts of takeovers": (given(AdoptRun, attempts=1), TAKEOVER),
    "deaths": (given(SetRun, deaths=0), DEATHS),
    "deaths of takeovers": (given(AdoptRun, deaths=0), DEATHS),
    "deaths of new runs": (put(deaths=0), DEATHS),
    "runs that were taken over": (
        Fault(answer=taken_as_running),
        "runs: a run that was taken over is pending",
    ),
    "builds": (put(build=""), BUILDS),
    "priorities": (put(priority=0), BUILDS),
    "times": (put(due=0), BUILDS),
    "builds of offers": (asked(ListWaiting, builds=()), BUILDS),
    "times of offers": (asked(ListWaiting, now=FAR), BUILDS),
    "times of counts": (asked(CountWaiting, now=FAR), BUILDS),
    "builds of counts": (asked(CountWaiting, builds=()), BUILDS),
    "renewals": (lost(RenewOwner), LEASES),
    "dropped leases": (lost(DropOwner), LEASES),
    "leases of any length": (given(RenewOwner, lease_s=60.0), LEASES),
    "requests to cancel": (lost(AskCancel), ASKS),
    "reasons of requests": (given(AskCancel, reason="another"), ASKS),
    "requests to older runs": (given(AskCancel, earlier=False), ASKS),
    "events": (lost(StoreEvents), EVENTS),
    "limits of events": (given(StoreEvents, keep=FAR), EVENTS),
    "ages of events": (given(StoreEvents, older_than=0), EVENTS),
    "replaced events": (given(StoreEvents, replaces=0), "runs: events are replaced"),
    "trims": (lost(TrimRuns), TRIMS),
    "ages of trims": (given(TrimRuns, older_than=FAR), TRIMS),
    "forgotten runs": (lost(ForgetRun), TRIMS),
    "sealed runs": (lost(SealRun), "runs: payloads are sealed"),
    "events of sealed runs": (given(SealRun, events=()), "runs: payloads are sealed"),
    "one run": (asked(ListRuns, run=None), "runs: a run is stored whole"),
    "threads of runs": (asked(ListRuns, thread_id=None), LISTED),
    "statuses of lists": (asked(ListRuns, statuses=()), LISTED),
    "orphans": (asked(ListRuns, orphaned=False), LISTED),
    "owners that are asked": (asked(ListRuns, asked_of=None), ASKS),
    "open runs of threads": (asked(ListRuns, open_of=()), LISTED),
    "named runs": (asked(ListRuns, among=()), LISTED),
    "limit of searches": (asked(SearchRuns, limit=99), SEARCH),
    "graphs of searches": (asked(SearchRuns, graph=None), SEARCH),
    "statuses of searches": (asked(SearchRuns, statuses=()), SEARCH),
    "prefixes": (asked(SearchRuns, prefix=""), SEARCH),
    "times of searches": (asked(SearchRuns, since=0), SEARCH),
    "floors of searches": (asked(SearchRuns, floor=b""), SEARCH),
    "ends of searches": (asked(SearchRuns, before=b"\xff" * 17), SEARCH),
    "offers that had an owner": (asked(ListWaiting, owned=False), OFFERS),
    "limits of offers": (asked(ListWaiting, limit=99), OFFERS),
    "graphs of offers": (asked(ListWaiting, graphs=("g", "h")), OFFERS),
    "limits of counts": (asked(CountWaiting, limit=99), OFFERS),
    "offsets": (asked(ReadEvents, after=0), EVENTS),
    "limits of pages": (asked(ReadEvents, limit=99), EVENTS),
    "bytes of pages": (asked(ReadEvents, bytes_max=None), EVENTS),
    "the newest event": (asked(ReadEvents, newest=False), EVENTS),
    "open runs of owners": (rows_of(OwnerRow, runs=0), LEASES),
    "adopted runs of owners": (rows_of(OwnerRow, adopted=0), LEASES),
    "every owner lives": (rows_of(RunRow, alive=True), LEASES),
    "no owner lives": (rows_of(RunRow, alive=False), LEASES),
    "alarms": (given(Commit, alarm=None), "alarms: alarms come in order"),
    "alarms that are taken away": (
        Fault(request=still_set, covers=("Commit.alarm",)),
        "alarms: a commit sets the alarm",
    ),
    "alarms that are taken": (lost(TakeAlarm), TAKEN),
    "times of taken alarms": (given(TakeAlarm, at=21), TAKEN),
    "alarms that are taken twice": (Fault(outcome=taken), TAKEN),
    "graphs of alarms": (asked(ListAlarms, graphs=("g", "h")), "alarms: alarms come in order"),
    "limits of alarms": (asked(ListAlarms, limit=99), "alarms: alarms come in order"),
    "order of alarms": (Fault(answer=backwards), "alarms: alarms come in order"),
}
"""Name -> the fault, and the check that finds it."""

WITHOUT_A_FAULT = {
    *("size", "number"),  # bounds and numbers of saves, which a saver doesn't store
    # These address rows, or are the rows: a saver can't miss them and answer at all.
    *("thread_id", "run", "runs", "id", "ids", "owner", "was", "source", "base"),
    *("row", "rows", "claim", "ledger", "checkpoints", "values", "record", "head", "alive"),
    *("status", "claimed", "cancel", "payload", "resealer"),  # parts of requests that are lost
    "LoadCheckpoint.parent",  # a saver may leave it out
    "HoldWhole.namespace",  # the id of the checkpoint says it too
}
"""Parts of requests and queries for which no fault is planted."""

"""Changes of a graph under stored threads: whether a resume goes on, or is refused and why.

One pure function, `change_of`, is asked by everyone: a resume, its error, the command that checks
threads before a deployment, recovery. It looks at the checkpoint and at all that waits beside it:
what names a node, a key or a join that the graph doesn't have would be left out silently.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from actorgraph.channels.last_value import is_single
from actorgraph.errors import SchemaMismatchError, did_you_mean
from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import JOIN, join_parts
from actorgraph.superstep.changes.graphless import runs_no_graph
from actorgraph.superstep.changes.lost_tools import lost_tools
from actorgraph.superstep.changes.missed_joins import missed_starts
from actorgraph.superstep.changes.stored_tasks import bare_state, stages_of
from actorgraph.superstep.changes.waiting_inputs import INPUT_MIGRATED, refused_input
from actorgraph.superstep.handover import pairs_in
from actorgraph.superstep.pending_writes import attempts, own_ids
from actorgraph.superstep.stored_calls import (
    KnownTasks,
    call_chain,
    lost_advice,
    lost_calls,
    stored_calls,
)
from actorgraph.superstep.task_failures import is_handled, with_handlers
from actorgraph.values.checkpoint import Restored, StoredWrite
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import (
    BRANCH_TO,
    CALL,
    END,
    HANDED_UP,
    HANDLER_MARK,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK,
    PULL,
    PUSH,
    RETURN,
    ROOT,
    START,
    TASKS,
)
from actorgraph.values.graph_changes import Finding, FindingKind, GraphChange, ResumeVerdict
from actorgraph.values.ids import as_text
from actorgraph.values.run import Task, TaskPath

_INTERNAL = frozenset({RETURN, NO_WRITES, HANDED_UP})


def change_of(
    plan: Plan, restored: Restored, thread_id: str, tasks: AbstractSet[str] | None = None
) -> GraphChange:
    """Decide what a resume of a thread under a graph would do.

    Args:
        restored: the checkpoint that it would start from, with its pending writes, brought up to
            date with the graph's migrations (`codec.restore`).
        tasks: the names of this process's `@task`s; None to leave the stored calls to the run,
            which looks at the end of each caller.
    """
    all_findings = [*_findings(plan, restored), *_lost_calls(plan, restored, tasks)]
    findings = tuple({(f.kind, f.name, f.where): f for f in all_findings}.values())
    migrated = restored.migrated
    if restored.claim is not None and restored.claim.migrated:
        migrated = (*migrated, INPUT_MIGRATED)
    verdict = ResumeVerdict.MIGRATED if migrated else ResumeVerdict.FITS
    return GraphChange(
        thread_id=thread_id,
        checkpoint=as_text(restored.id) if restored.id else "",
        stored_graph=restored.graph,
        graph=plan.graph_id,
        verdict=ResumeVerdict.REFUSED if findings else verdict,
        findings=findings,
        migrated=migrated,
    )


def check_fits(plan: Plan, restored: Restored, thread_id: str) -> None:
    """Refuse a checkpoint that does not go on under the graph as a whole.

    Raises:
        SchemaMismatchError: the first finding of `change_of`.
    """
    for finding in _findings(plan, restored):
        raise mismatch(finding, thread_id, restored.graph)


def mismatch(finding: Finding, thread_id: str, stored_graph: str) -> SchemaMismatchError:
    """Make the error of a finding."""
    below = f", in {finding.namespace!r}" if finding.namespace else ""
    return SchemaMismatchError(
        f"a checkpoint of thread {thread_id!r}, of graph {stored_graph!r}{below}, "
        f"{finding.where}, {finding.why}",
        do=finding.do,
    )


def _findings(plan: Plan, restored: Restored) -> Iterator[Finding]:
    where = restored.namespace
    sends: list[Send] = restored.values.get(TASKS) or []
    for name in dict.fromkeys([*restored.next, *(send.node for send in sends)]):
        if name not in plan.callable:
            yield _gone(plan, FindingKind.NODE, name, f"waits for node {name!r}", where)
    for channel in (*restored.values, *restored.deltas):
        if channel not in plan.channels:
            yield _unknown(plan, channel, "", where)
    if restored.converted:
        yield from _newer_values(plan, restored)
    same_graph = restored.graph == plan.graph_id and not plan.migrations
    # A run from another checkpoint than the head is a replay, which runs all of its tasks again.
    if restored.ledger and restored.id == (restored.head or restored.id):
        if not same_graph:
            yield from _pending(plan, restored)
        yield from lost_tools(plan, restored)  # the graph's id doesn't depend on a node's tools
    if not same_graph:
        yield from _missed(plan, restored)
    yield from _stored_input(plan, restored)


def _stored_input(plan: Plan, restored: Restored) -> Iterator[Finding]:
    """The input of a run that died before its first checkpoint, accepted by another version."""
    claim = restored.claim
    if claim is None or not claim.has_input or claim.accepted_by in ("", plan.graph_id):
        return
    finding = refused_input(plan, claim.input, "it waits for a run whose input")
    if finding is not None:
        yield finding


def _newer_values(plan: Plan, restored: Restored) -> Iterator[Finding]:
    """Values that a newer version of the graph has converted."""
    for channel, had in restored.converted.items():
        own = {one.name for one in plan.renames.conversions if one.channel == channel}
        names = list(had)
        known = [place for place, name in enumerate(names) if name in own]
        newer = names[known[-1] + 1 :] if known else []
        if newer:
            which = ", ".join(repr(name) if name else "one without a name" for name in newer)
            yield Finding(
                FindingKind.VALUE,
                channel,
                f"has a value of {channel!r} that was converted by a later migration ({which})",
                f"which graph {plan.title!r} doesn't have",
                f"Migration(name={newer[0]!r}, values={{{channel!r}: None}})",
                "go on with the newer version of the program; if the migration was removed since, "
                "list it with None in place of its function",
                restored.namespace,
            )


def _unknown(plan: Plan, channel: str, of: str, namespace: str) -> Finding:
    """A channel that the graph doesn't have.

    Args:
        of: the clause about the task that has written it; "" where it has a value.
    """
    if channel.startswith(BRANCH_TO):
        name = channel.removeprefix(BRANCH_TO)
        where = f"{of} leads to node {name!r}" if of else f"waits for the edge {channel!r}"
        return _gone(plan, FindingKind.NODE, name, where, namespace)
    join = join_parts(channel) if channel.startswith(JOIN) else None
    if join is not None:
        return _join(plan, *join, of, namespace)
    where = f"{of} has written channel {channel!r}" if of else f"has a value of channel {channel!r}"
    return _gone(plan, FindingKind.CHANNEL, channel, where, namespace)


def _gone(plan: Plan, kind: FindingKind, name: str, where: str, namespace: str) -> Finding:
    is_key = kind is FindingKind.CHANNEL
    choices = plan.state_keys if is_key else sorted(plan.nodes)
    field = "channels" if is_key else "nodes"
    now = (plan.renames.channels if is_key else plan.renames.nodes).get(name)
    if now is not None:
        return Finding(
            kind,
            name,
            where,
            f"which is {now!r} in graph {plan.title!r}, as another one of the same thread is",
            f"Migration({field}={{{name!r}: None}})",
            f"let one of them have the name {now!r}, and drop the other by None or give it a name "
            "of its own; or go on with the graph that stored it",
            namespace,
        )
    cure = f"Migration({field}={{{name!r}: 'its new name'}})"
    more = (
        ""
        if is_key
        else (
            f"; Migration(goto={{{name!r}: 'another node'}}) runs that one, and keeps finished work"
        )
    )
    return Finding(
        kind,
        name,
        where,
        f"which graph {plan.title!r} doesn't have",
        cure,
        f"{did_you_mean(name, choices)}; compile(migrations=[{cure}]), None drops it{more}; or go "
        "on with the graph that stored it",
        namespace,
    )


def _join(plan: Plan, starts: frozenset[str], end: str, of: str, namespace: str) -> Finding:
    names = sorted(starts)
    if end not in plan.nodes:
        return _gone(plan, FindingKind.NODE, end, f"{of or 'it'} leads to node {end!r}", namespace)
    renames = plan.renames
    gone = next((n for n in names if n not in plan.nodes and n not in renames.nodes), None)
    if gone is not None:
        where = f"{of or 'it'} waits in the join of {names} into {end!r}"
        return _gone(plan, FindingKind.NODE, gone, where, namespace)
    parts = [p[0] for channel in plan.channels if (p := join_parts(channel)) and p[1] == end]
    counted = {renames.node(name) for name in names}.union(*map(renames.instead, names))
    new = sorted(parts[0] - counted) if parts else []
    if new:
        why = f"which in graph {plan.title!r} also waits for {', '.join(map(repr, new))}"
        cure = f"Migration(joins={{{end!r}: {new!r}}})"
        do = f"compile(migrations=[{cure}]) if these count as arrived in such threads"
    else:
        why, cure = (
            f"which graph {plan.title!r} doesn't have",
            f"Migration(joins={{{end!r}: None}})",
        )
        do = f"compile(migrations=[{cure}]) drops what has arrived at it"
    where = f"{of or 'it'} waits in the join of {names} into {end!r}"
    return Finding(
        FindingKind.JOIN,
        end,
        where,
        why,
        cure,
        f"{do}; or go on with the graph that stored it",
        namespace,
    )


def _lost_calls(
    plan: Plan, restored: Restored, defined: AbstractSet[str] | None
) -> Iterator[Finding]:
    """Results of `@task` calls under names that no task of the program has."""
    if defined is None or not restored.ledger:
        return
    known, due = attempts(restored.ledger), _due(plan, restored)
    stored = stored_calls({task: attempt for task, attempt in known.items() if task not in due})
    tasks = KnownTasks(defined, plan)
    for task in due.values() if stored else ():
        ended = task.id in known and known[task.id].writes is not None
        if ended or is_handled(plan, task, known):
            continue  # it isn't called again
        for name in lost_calls(stored, plan, tasks, task):
            yield Finding(
                FindingKind.TASK,
                name,
                f"has the result of a call of task {name!r}",
                "which no @task of the program has",
                *lost_advice(name, defined),
                restored.namespace,
            )


def _missed(plan: Plan, restored: Restored) -> Iterator[Finding]:
    """Joins that can't open, because a start of theirs has passed by."""
    for channel, missed in missed_starts(plan, restored).items():
        starts, end = join_parts(channel) or (frozenset[str](), "")
        if end in plan.renames.joins:
            continue  # the migration has said what counts
        names = sorted(missed)
        cure = f"Migration(joins={{{end!r}: {names!r}}})"
        yield Finding(
            FindingKind.JOIN,
            end,
            f"is on the way to node {end!r}",
            f"which in graph {plan.title!r} waits for {', '.join(map(repr, sorted(starts)))}, "
            f"and has passed {', '.join(map(repr, names))}",
            cure,
            f"compile(migrations=[{cure}]) if these count as arrived in such threads, None in "
            "place of the list if the join need not open; or go on with the graph that stored it",
            restored.namespace,
        )


def _pending(plan: Plan, restored: Restored) -> Iterator[Finding]:
    """Findings among the pending writes."""
    due, known = _due(plan, restored), attempts(restored.ledger)
    for task, rows in _by_task(restored.ledger).items():
        path = rows[0].path
        of = _who(path, task)
        for row in rows:
            for channel, value in row.writes if row.index >= 0 else ():
                yield from _written(plan, channel, value, of, restored.namespace)
        if task == NULL_TASK or task in due or not _is_task(path):
            continue
        attempt = known.get(task)
        if attempt is None or not (attempt.writes or attempt.interrupts or attempt.answers):
            continue  # it has failed, and nothing of it would be lost
        yield from _not_due(plan, path, of, restored.namespace)
    yield from _too_many(plan, restored)
    for task in due.values():
        attempt = known.get(task.id)
        if attempt is None or not attempt.interrupts or attempt.writes is not None:
            continue
        own = own_ids(task, len(attempt.answers) + len(attempt.interrupts))
        if task.name in plan.subgraphs and any(q.id in own for q in attempt.interrupts):
            yield _subgraph(plan, task, restored.namespace)
        below = [q for q in attempt.interrupts if q.id not in own]
        if below and task.name in plan.nodes and task.name not in plan.subgraphs:
            # A dropped @task may have asked it, whose call has no row before it ends.
            asked = any(call_chain(row.path) for row in restored.ledger)
            drops = None in plan.renames.tasks.values()
            if not asked and not drops and runs_no_graph(plan.nodes[task.name].call):
                yield _no_subgraph(plan, task, restored.namespace)


def _too_many(plan: Plan, restored: Restored) -> Iterator[Finding]:
    """Keys that have lost the reducer for the several values that finished tasks wrote."""
    rows = [r.writes for r in restored.ledger if r.index >= 0 and _is_task(r.path)]
    rows += [writes for _, _, writes in restored.left]
    for channel, count in Counter(channel for writes in rows for channel, _ in writes).items():
        if count > 1 and channel in plan.channels and is_single(plan.channels[channel]):
            yield Finding(
                FindingKind.CHANNEL,
                channel,
                f"has {count} values of {channel!r} from tasks of one superstep",
                f"for which graph {plan.title!r} has no reducer",
                "",
                f"give {channel!r} a reducer that combines them until such threads have gone on; "
                "or go on with the graph that stored it",
                restored.namespace,
            )


def _written(plan: Plan, channel: str, value: object, of: str, namespace: str) -> Iterator[Finding]:
    if channel == TASKS:
        for send in value if isinstance(value, list) else [value]:
            if isinstance(send, Send) and send.node not in plan.nodes:
                where = f"{of} sends to node {send.node!r}"
                yield _gone(plan, FindingKind.NODE, send.node, where, namespace)
    elif channel not in plan.channels and channel not in _INTERNAL:
        yield _unknown(plan, channel, of, namespace)


def handed_to_nothing(
    plan: Plan, commands: Iterable[Command[Any]], namespace: str
) -> Iterator[Finding]:
    """Find what a subgraph's stored Commands name and the graph above, which they are for, lacks.

    Args:
        commands: by today's names.
        namespace: of the subgraph.
    """
    for command in commands:
        for key, _ in pairs_in(command.update) or ():
            if key not in plan.channels and key != ROOT:
                where = f"commands an update of {key!r} in the graph above"
                yield _gone(plan, FindingKind.CHANNEL, key, where, namespace)
        goto = command.goto
        for to in goto if isinstance(goto, list | tuple) else [goto]:
            name = to.node if isinstance(to, Send) else to
            if isinstance(name, str) and name != END and name not in plan.nodes:
                where = f"commands node {name!r} of the graph above"
                yield _gone(plan, FindingKind.NODE, name, where, namespace)


def _due(plan: Plan, restored: Restored) -> dict[str, Task]:
    """The tasks that the graph makes due, at any stage, by their ids in the store."""
    due: dict[str, Task] = {}
    known = attempts(restored.ledger)
    try:
        for state, tasks in stages_of(bare_state(plan, restored), restored.ledger):
            due.update({task.id: task for task in with_handlers(state, tasks, known)})
    except Exception:  # noqa: BLE001 - a Command's writes to a key that is gone or has changed
        return due
    return due


def waiting_subgraphs(plan: Plan, restored: Restored) -> list[Task]:
    """List the unfinished tasks of a checkpoint whose nodes are subgraphs."""
    if not plan.subgraphs:
        return []
    known = attempts(restored.ledger)
    return [
        task
        for task in _due(plan, restored).values()
        if task.name in plan.subgraphs and task.path[-1] != CALL
        if task.id not in known or known[task.id].writes is None
    ]


def waiting_functions(plan: Plan, restored: Restored) -> list[Task]:
    """List the unfinished tasks whose nodes run no graph, as far as their code shows.

    Where another version has run a subgraph in one, that has a state, which would be left out.
    """
    if restored.graph == plan.graph_id or not (restored.next or restored.values.get(TASKS)):
        return []
    known = attempts(restored.ledger)
    return [
        task
        for task in _due(plan, restored).values()
        if task.name in plan.nodes and task.name not in plan.subgraphs and task.path[-1] != CALL
        if task.id not in known or known[task.id].writes is None
        if runs_no_graph(plan.nodes[task.name].call)
    ]


def left_subgraph(plan: Plan, task: Task, namespace: str) -> Finding:
    """Make the finding of the stored state of a subgraph whose node is a function now."""
    return _no_subgraph(plan, task, namespace, "has the unfinished subgraph")


def forgotten(plan: Plan, restored: Restored) -> list[str]:
    """List the nodes that have run in a thread, which the graph and its migrations don't know."""
    known = (*plan.callable, *plan.renames.nodes, INTERRUPT, START)
    return [name for name in restored.seen if name not in known]


def memory_of(plan: Plan, name: str, namespace: str) -> Finding:
    """Make the finding of the stored state of a stateful subgraph whose node is gone."""
    where = f"has the state of the stateful subgraph of node {name!r}"
    return _gone(plan, FindingKind.NODE, name, where, namespace)


def _by_task(ledger: Iterable[StoredWrite]) -> Mapping[str, list[StoredWrite]]:
    rows: dict[str, list[StoredWrite]] = {}
    for row in ledger:
        rows.setdefault(row.task, []).append(row)
    return rows


def _is_task(path: TaskPath) -> bool:
    """Whether a row is of a node's task, and not of a call, a step or an update."""
    if len(path) < 2 or path[-1] == CALL:
        return False
    return path[0] == PULL or (path[0] == PUSH and isinstance(path[1], int))


def _who(path: TaskPath, task: str) -> str:
    if task == NULL_TASK:
        return "its input"
    if len(path) > 1 and path[0] == PULL:
        return f"the task of node {path[1]!r}"
    return f"the task of {path[-1]!r}" if path else f"task {task}"


def _not_due(plan: Plan, path: TaskPath, of: str, namespace: str) -> Iterator[Finding]:
    node, what = str(path[-1] if path[0] == PUSH else path[1]), of
    if HANDLER_MARK in path:
        node = str(path[path.index(HANDLER_MARK) - 1] if path[0] == PUSH else path[1])
        what = f"the error handler of node {node!r}"
    if node not in plan.callable:
        yield _gone(plan, FindingKind.NODE, node, f"has results or questions of {what}", namespace)
        return
    back = "give the node its error handler back; or " if HANDLER_MARK in path else ""
    yield Finding(
        FindingKind.TASK,
        node,
        f"has results or questions of {what}",
        f"which is not due in graph {plan.title!r}",
        "",
        f"{back}go on with the graph that stored it until the superstep is over",
        namespace,
    )


def _subgraph(plan: Plan, task: Task, namespace: str) -> Finding:
    return Finding(
        FindingKind.TASK,
        task.name,
        f"has a question of node {task.name!r} itself",
        f"which is a subgraph in graph {plan.title!r}, so that no answer would reach it",
        f"Migration(goto={{{task.stored.name if task.stored else task.name!r}: {task.name!r}}})",
        "answer it with the graph that stored it; or give the subgraph's node another name, and "
        "lead the thread to it with Migration(goto={'old': 'new'})",
        namespace,
    )


def _no_subgraph(
    plan: Plan, task: Task, namespace: str, has: str = "has a question of a subgraph"
) -> Finding:
    name = task.stored.name if task.stored else task.name
    return Finding(
        FindingKind.TASK,
        name,
        f"{has} of node {name!r}",
        f"which runs none in graph {plan.title!r}, so that its finished work would be left out",
        f"Migration(goto={{{name!r}: 'its new name'}})",
        "go on with it with the graph that stored it; or give the node another name, and lead the "
        f"thread to it with Migration(goto={{{name!r}: 'its new name'}}): it begins anew",
        namespace,
    )

"""Compatibility of stored checkpoints with a graph that has changed, and checks of migrations."""

from collections.abc import Iterable, Sequence

from actorgraph.errors import GraphBuildError, SchemaMismatchError, did_you_mean
from actorgraph.plan.plan import Plan
from actorgraph.values.checkpoint import Migration, Restored
from actorgraph.values.constants import BRANCH_TO, TASKS


def check_fits(plan: Plan, restored: Restored, thread_id: str) -> None:
    """Refuse a checkpoint that names nodes or channels unknown to the graph.

    Raises:
        SchemaMismatchError: a node that runs next, or a channel that has a value, is gone.
    """
    sends = restored.values.get(TASKS) or ()
    waiting = dict.fromkeys([*restored.next, *(send.node for send in sends)])
    known = plan.callable
    for name in waiting:
        if name not in known:
            raise _mismatch(plan, "nodes", name, _who(restored, thread_id, "waits for node", name))
    channels = plan.channels
    for name in (*restored.values, *restored.deltas):
        if name in channels:
            continue
        if name.startswith(BRANCH_TO):
            who = _who(restored, thread_id, "waits for the edge", name)
            raise _mismatch(plan, "nodes", name.removeprefix(BRANCH_TO), who)
        who = _who(restored, thread_id, "has a value of channel", name)
        raise _mismatch(plan, "channels", name, who)


def other_graph(plan: Plan, restored: Restored, thread_id: str) -> str | None:
    """Make a warning if a thread seems to belong to another graph; else None.

    A graph that has merely changed still has some of the nodes that have run.
    """
    if restored.graph in {"", plan.graph_id} or plan.migrations:
        return None
    ran = [name for name in restored.seen if not name.startswith("__")]
    if not ran or any(name in plan.callable for name in ran):
        return None
    return (
        f"graph {plan.graph_id!r} goes on with thread {thread_id!r} of graph {restored.graph!r}, "
        f"none of whose nodes it has ({', '.join(map(repr, ran[:3]))}); use another thread_id, or "
        "compile(migrations=...) if the nodes were renamed"
    )


def _who(restored: Restored, thread_id: str, has: str, name: str) -> str:
    return f"a checkpoint of thread {thread_id!r}, of graph {restored.graph!r}, {has} {name!r}"


def _mismatch(plan: Plan, kind: str, name: str, who: str) -> SchemaMismatchError:
    choices: Sequence[str] = plan.state_keys if kind == "channels" else sorted(plan.nodes)
    return SchemaMismatchError(
        f"{who}, which graph {plan.graph_id!r} doesn't have",
        do=f"{did_you_mean(name, choices)}; compile(migrations=[Migration({kind}="
        f"{{{name!r}: 'its new name'}})]), None drops it; or go on with the graph that stored it",
    )


def check_migrations(plan: Plan) -> None:
    """Refuse migrations that don't match the graph.

    Raises:
        GraphBuildError: the graph lacks a new name, or has an old one.
    """
    for migration in plan.migrations:
        channels = [new for new in migration.channels.values() if new is not None]
        _known("channel", [*channels, *migration.values], plan.channels)
        nodes = [new for new in migration.nodes.values() if new is not None]
        _known("node", nodes, plan.nodes)
        for kind, olds, names in (
            ("channel", migration.channels, plan.channels),
            ("node", migration.nodes, plan.nodes),
        ):
            for old in olds:
                if old in names:
                    raise GraphBuildError(
                        f"a migration renames {kind} {old!r}, which graph {plan.name!r} has",
                        do="rename only names that the graph no longer has",
                    )


def _known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    choices = list(known)
    for name in names:
        if name not in choices:
            raise GraphBuildError(
                f"a migration names {kind} {name!r}, which the graph doesn't have",
                do=did_you_mean(name, choices),
            )


def renamed_channels(migration: Migration) -> dict[str, str | None]:
    """Make old channel -> new one, for state keys and for the edges to renamed nodes."""
    edges = {
        BRANCH_TO + old: None if new is None else BRANCH_TO + new
        for old, new in migration.nodes.items()
    }
    return {**migration.channels, **edges}

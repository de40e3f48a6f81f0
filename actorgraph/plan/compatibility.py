"""Checks of a graph's migrations; and whether a stored thread seems to be of another graph."""

from collections import Counter
from collections.abc import Iterable

from actorgraph.errors import GraphBuildError, did_you_mean
from actorgraph.plan.plan import Plan
from actorgraph.values.checkpoint import Migration, Restored


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
        f"graph {plan.title!r} goes on with thread {thread_id!r} of graph {restored.graph!r}, "
        f"none of whose nodes it has ({', '.join(map(repr, ran[:3]))}); use another thread_id, or "
        "compile(migrations=...) if the nodes were renamed"
    )


def check_migrations(plan: Plan) -> None:
    """Refuse migrations that don't match the graph.

    Raises:
        GraphBuildError: the graph lacks a new name, or has an old one; or several conversions of
            one key have the same name.
    """
    for migration in plan.migrations:
        _check_types(migration)
    renames = plan.renames
    tasks = plan.mentioned_tasks if renames.tasks else ()
    channels = [new for new in renames.channels.values() if new is not None]
    _known("channel", [*channels, *(one.channel for one in renames.conversions)], plan.channels)
    nodes = [new for new in renames.nodes.values() if new is not None]
    going = [name for names in renames.goto.values() for name in names]
    arrived = [name for names in renames.joins.values() for name in names or ()]
    _known("node", [*nodes, *going, *renames.joins, *arrived], plan.nodes)
    for kind, olds, names in (
        ("channel", renames.channels, plan.channels),
        ("node", renames.nodes, plan.nodes),
        ("task", renames.tasks, tasks),
    ):
        for old, new in olds.items():
            if old in names:
                does = "drops" if new is None else "renames"
                raise GraphBuildError(
                    f"a migration {does} {kind} {old!r}, which graph {plan.name!r} has: of a "
                    f"stored {old!r} it can't be known whether the old one or the new one is meant",
                    do="rename and drop only names that the graph no longer has; where two have "
                    "swapped their names, or one has taken another's, give the new ones names "
                    "that the graph never had",
                )
    named = Counter((one.channel, one.name) for one in renames.conversions)
    for (channel, name), count in named.items():
        if count > 1:
            raise GraphBuildError(
                f"{count} migrations {f'named {name!r}' if name else 'without a name'} convert the "
                f"values of {channel!r}: no thread could note which of them it has had",
                do=f"name each: Migration(name='...', values={{{channel!r}: ...}}); one that "
                "is deployed keeps the name that it has",
            )


def _check_types(migration: Migration) -> None:
    if type(migration) is not Migration:
        raise GraphBuildError(
            f"{migration!r} is not a Migration",
            do="compile(migrations=[Migration(...), ...])",
        )


def _known(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    choices = list(known)
    for name in names:
        if name not in choices:
            raise GraphBuildError(
                f"a migration names {kind} {name!r}, which the graph doesn't have",
                do=did_you_mean(name, choices),
            )

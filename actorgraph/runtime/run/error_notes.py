"""Notes that are added to the errors of nodes: what the state or the context lacked."""

from collections.abc import Mapping
from typing import Any

from actorgraph.errors.texts import add_note, error_text
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.runtime.task.runtime import RunResources
from actorgraph.values.run import Task


def note_missing(
    error: BaseException, task: Task, node: NodePlan, values: Mapping[str, Any]
) -> None:
    """Add a note to a node's KeyError if its key is a state key without a value.

    Other keys, such as those of a dict of the node's own, get no note; nor do tasks of a Send,
    which does not read the state.

    Args:
        values: the state that the task has read.
    """
    key = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else None
    if isinstance(key, str) and key in node.reads and key not in values and task.input is None:
        add_note(
            error,
            f"The state has no {key!r} yet: no input and no node has given it a value.\n"
            f"  Do this: pass it in the input, let a node before {task.name!r} return it, or read "
            f"it with state.get({key!r})",
        )


def note_no_resource(error: BaseException, plan: Plan, resources: RunResources) -> None:
    """Add a note to an error about None if the run lacks a context or a store.

    A context counts if the graph declares one, a store if the error names one of its methods.
    """
    if not isinstance(error, (AttributeError, TypeError)):
        return
    text = error_text(error)
    if "NoneType" not in text:
        return
    if resources.store is None and text.rpartition("no attribute ")[2].strip("'") in _OF_STORES:
        add_note(
            error,
            f"Graph {plan.name!r} was compiled without a store, so runtime.store is None.\n"
            "  Do this: pass store= to compile(), e.g. InMemoryStore()",
        )
        return
    schema = plan.sources.context
    if schema is not None and resources.context is None:
        name = getattr(schema, "__name__", repr(schema))
        add_note(
            error,
            f"The call passed no context=, so runtime.context is None; graph {plan.name!r} "
            f"declares context_schema={name}.\n  Do this: pass context={name}(...) to the call",
        )


_OF_STORES = frozenset(
    a + name
    for a in ("", "a")
    for name in ("get", "put", "delete", "search", "list_namespaces", "batch")
)

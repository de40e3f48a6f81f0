"""Return values of nodes and routers -> the writes of their tasks, checked against the graph.

A route to a node that doesn't exist fails the task: a typo in a route is always a bug. An unknown
key is dropped and reported, because programs written for LangGraph often have some; under `strict`
it fails the task too.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, cast

from actorgraph.bridging import BRIDGE
from actorgraph.channels import EMPTY, UNCHANGED
from actorgraph.errors import (
    ErrorCode,
    InvalidUpdateError,
    UnknownTargetError,
    did_you_mean,
)
from actorgraph.errors.excerpts import shown
from actorgraph.errors.texts import plain
from actorgraph.plan.annotations import declared_names
from actorgraph.plan.plan import BranchPlan, NodePlan, Plan
from actorgraph.plan.state_objects import written_by
from actorgraph.superstep.inputs import unknown_keys
from actorgraph.superstep.tasks import edge_to, view
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import END, HANDED_UP, INTERRUPT, ROOT, START, TASKS
from actorgraph.values.run import Write


def writes_of(
    plan: Plan, node: NodePlan, returned: Any, *, nested: bool = False
) -> tuple[list[Write], list[str]]:
    """Make the writes of a return value and of the static edges.

    Args:
        returned: a dict, an object of the schema, None, a Command, a Send, or a list of these.
        nested: whether the graph runs as a subgraph, so that a Command may be for its parent: it
            becomes a write to `HANDED_UP`.
    Returns: the writes in the node's order, and a sentence for each dropped key.
    Raises:
        InvalidUpdateError: the value is none of these, or a key is unknown and the plan strict.
        UnknownTargetError: a route leads to an unknown node.
    """
    if type(returned) is dict and node.writes.issuperset(returned) and not node.bare:
        for key in returned:
            if type(key) is not str:
                returned = dict(pairs_of(returned))
                break
        if BRIDGE.types_module in sys.modules:
            returned = BRIDGE.adapt_update(returned)
        return [*returned.items(), *node.targets], []  # fast path: a dict of known keys
    writes, dropped = writes_and_dropped(plan, node, returned, nested=nested)
    if dropped and plan.forbids and node.name == START:
        raise InvalidUpdateError(dropped[0], do="give only known keys: the class forbids others")
    if dropped and plan.strict:
        raise InvalidUpdateError(dropped[0], do="give only known keys, or leave strict=True out")
    return writes, dropped


def writes_and_dropped(
    plan: Plan, node: NodePlan, returned: Any, *, nested: bool = False
) -> tuple[list[Write], list[str]]:
    """Make writes as `writes_of` does, and leave unknown keys of a strict plan to the caller."""
    returned = BRIDGE.adapt(returned)
    if node.shape is not None and (node.literal or not isinstance(returned, (Command, Send))):
        returned = node.shape(returned)
    writes: list[Write] = []
    dropped: list[str] = []
    bare, hands_over = node.bare, False
    for part in _parts(returned, bare):
        if type(part) is dict and not bare:
            _add_keys(plan, node, updates_in(node, part), writes, dropped)
        elif isinstance(part, Command):
            if _is_for_parent(node, part, nested):
                writes.append((HANDED_UP, [part.update, _listed(part.goto)]))
                hands_over = True
                continue
            _add_keys(plan, node, updates_in(node, part.update), writes, dropped)
            writes.extend(routes(plan, _source(node), part.goto))
        elif isinstance(part, Send):
            writes.append(_send(plan, _source(node), part))
        else:
            _add_keys(plan, node, updates_in(node, part), writes, dropped)
    if hands_over:
        return writes, dropped  # its edges lead nowhere: the subgraph's run ends
    writes.extend(node.targets)
    if dropped and nested and node.name == START:
        return writes, []  # the input is the parent's state, and only some of its keys are ours
    return writes, dropped


def _source(node: NodePlan) -> str:
    return f"node {node.name!r}"


def _listed(goto: Any) -> list[Any]:
    targets = goto if isinstance(goto, (list, tuple)) else (goto,)
    return [target if isinstance(target, str) else BRIDGE.adapt(target) for target in targets]


def _is_for_parent(node: NodePlan, command: Command[Any], nested: bool) -> bool:
    if command.graph == Command.PARENT and nested:
        return True
    if command.graph is not None:
        graph = "Command.PARENT" if command.graph == Command.PARENT else repr(command.graph)
        raise InvalidUpdateError(
            f"node {node.name!r} returned a Command with graph={graph}, but its graph is not the "
            "subgraph of another one",
            do="leave graph= out; graph=Command.PARENT is for nodes of subgraphs",
        )
    return False


def _parts(returned: Any, bare: bool) -> Iterable[Any]:
    """Split a list of updates; in a graph over one value, a list of dicts is the value itself."""
    if returned is None:
        return ()
    parts = (Command, Send) if bare else (Command, Send, Mapping)
    if isinstance(returned, (list, tuple)) and any(isinstance(part, parts) for part in returned):
        return returned
    return (returned,)


def _add_keys(
    plan: Plan,
    node: NodePlan,
    pairs: Iterable[tuple[str, Any]],
    writes: list[Write],
    dropped: list[str],
) -> None:
    allowed = node.writes
    unknown: list[Any] = []
    for key, value in pairs:
        if key in allowed:
            writes.append((key, value))
        elif key == INTERRUPT and BRIDGE.holds_question(value):
            raise _unasked(node, value)
        elif key not in node.own:
            unknown.append(key)
    if unknown:
        does = "the input has" if node.name == START else f"node {node.name!r} returned"
        dropped.extend(unknown_keys(does, unknown, plan.state_keys))


def _unasked(node: NodePlan, asked: Any) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"node {node.name!r} returned an interrupt of a LangGraph graph: {asked[0].value!r}. "
        "It would be lost, and the run would go on without an answer",
        do="add that graph itself as a node, so that the run asks its questions; or ask with "
        "actorgraph's interrupt() and resume the graph in the node",
    )


def updates_in(node: NodePlan, update: Any) -> Iterable[tuple[str, Any]]:
    """Read the `(key, value)` pairs of an update in any of its forms.

    An object of the schema gives its fields, see `state_objects.written_by`; one of any other
    class with annotations those that have a value.

    Raises:
        InvalidUpdateError: it has none of these forms.
    """
    if update is None:
        return ()
    if node.writes == {ROOT}:
        return ((ROOT, update),)
    if isinstance(update, Mapping):
        return pairs_of(BRIDGE.adapt_update(update))
    if isinstance(update, (list, tuple)) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in update
    ):
        return BRIDGE.adapt_pairs(cast("list[tuple[str, Any]]", update))
    fields = fields_of(update, node.folds)
    if fields is None:
        raise _no_update(node, update)
    return BRIDGE.adapt_pairs(fields)


def pairs_of(update: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Return the items of an update; a key that is a member of an enum of strings as its text."""
    for key in update:
        if type(key) is not str:
            return [(plain(k) if isinstance(k, str) else k, v) for k, v in update.items()]
    return update.items()


def _no_update(node: NodePlan, update: Any) -> InvalidUpdateError:
    whence = f"from node {node.name!r}"
    do = "return a dict of state keys, a Command, a Send, a list of these, or None"
    if node.name == START:
        whence = "as an input"
        do = "pass a dict of state keys, an object of the state's schema, or a Command"
    return InvalidUpdateError(
        f"Expected dict, got {shown(update)} {whence}",
        do=do,
        code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
    )


def fields_of(update: Any, folds: frozenset[str] = frozenset()) -> list[tuple[str, Any]] | None:
    """Read the fields that an object of a schema gives, as in `updates_in`; None if it has none."""
    fields = written_by(update, folds)
    if fields is not None or isinstance(update, type):
        return fields
    declared = declared_names(type(update))
    return [(k, getattr(update, k)) for k in declared if hasattr(update, k)] if declared else None


def routes(plan: Plan, source: str, goto: Any) -> Iterator[Write]:
    """Make the writes that make the targets of a `goto` or of a branch due."""
    targets = goto if isinstance(goto, (list, tuple)) else (goto,)
    for item in targets:
        target = item if isinstance(item, str) else BRIDGE.adapt(item)
        if isinstance(target, Send):
            yield _send(plan, source, target)
        elif target != END:
            yield edge_to(_known(plan, source, target)), None


def _send(plan: Plan, source: str, send: Send) -> Write:
    if send.node == END:
        raise InvalidUpdateError(
            f"Cannot send a packet to the END node (from {source})",
            do="return END from the edge, or leave the Send out",
        )
    _known(plan, source, send.node)
    if send.timeout is not None and not plan.nodes[send.node].is_async:
        raise InvalidUpdateError(
            f"{source} sends to {send.node!r} with a timeout, but that is a sync function and a "
            "thread can't be stopped",
            do="make the node `async def`, or leave out the Send's timeout",
        )
    return TASKS, send


def _known(plan: Plan, source: str, target: Any) -> str:
    if isinstance(target, str) and target in plan.nodes and target != START:
        return plain(target)
    names = [name for name in plan.nodes if name != START]
    do = did_you_mean(target, names)
    raise UnknownTargetError(
        f"{source} goes to {shown(target)}, which is not a node of graph {plan.name!r}",
        do=do if do.endswith("?") else f"{do}, END" if names else "add it, or go to END",
    )


def branch_targets(plan: Plan, source: str, branch: BranchPlan, returned: Any) -> list[Write]:
    """Make the writes of a router's answer.

    Raises:
        UnknownTargetError: the answer is None, or neither in the path map nor a node.
    """
    if type(returned) is str and returned in branch.routes:
        channel = branch.routes[returned]
        return [] if channel is None else [(channel, None)]
    answers = returned if isinstance(returned, (list, tuple)) else [returned]
    answers = [answer if isinstance(answer, str) else BRIDGE.adapt(answer) for answer in answers]
    targets = [_end_of(branch, source, answer) for answer in answers]
    if any(target is None or target == START for target in targets):
        raise UnknownTargetError(
            f"router {branch.name!r} of node {source!r} did not return a valid destination: "
            f"{shown(returned)}",
            do="return a node's name, END, a Send, or a list of these",
        )
    return list(routes(plan, f"router {branch.name!r} of node {source!r}", targets))


def _end_of(branch: BranchPlan, source: str, answer: Any) -> Any:
    if isinstance(answer, Send) or branch.ends is None:
        return answer
    try:
        return branch.ends[answer]
    except (KeyError, TypeError):
        raise UnknownTargetError(
            f"router {branch.name!r} of node {source!r} returned {answer!r}, which is not in its "
            "path map",
            do=did_you_mean(answer, [str(key) for key in branch.ends]),
        ) from None


NOTHING_PASSED: Mapping[str, Any] = MappingProxyType({})


def passed_on(node: NodePlan, returned: Any) -> Mapping[str, Any]:
    """Return the keys of a node's dict without a channel: only its routers see them."""
    if not isinstance(returned, dict) or node.bare or node.writes.issuperset(returned):
        return NOTHING_PASSED
    update = cast("dict[str, Any]", returned)
    return {key: value for key, value in update.items() if key not in node.writes}


def branch_view(
    plan: Plan,
    values: Mapping[str, Any],
    branch: BranchPlan,
    writes: list[Write],
    passed: Mapping[str, Any] = NOTHING_PASSED,
) -> Any:
    """Make a router's input: the state with its own task's writes, without those of siblings.

    Args:
        passed: see `passed_on`; added if the router's input is a dict and has no own schema.
    """
    seen: Any = branch_view_of(plan, dict(values), branch, writes)
    if passed and branch.takes_more:
        seen = {**passed, **seen}
    if branch.own_keys and branch.coerce is None:
        # Keys outside of the view, as the node returned them; the view wins where both have one.
        return {**{key: value for key, value in writes if key in branch.own_keys}, **seen}
    return seen


def branch_view_of(
    plan: Plan, fresh: dict[str, Any], branch: BranchPlan, writes: list[Write]
) -> Any:
    """Make the branch's view of the state with a task's writes folded in; changes `fresh`."""
    fold_writes(plan, fresh, writes, branch.reads)
    return view(plan, fresh, branch.reads, branch.coerce)


def fold_writes(
    plan: Plan, fresh: dict[str, Any], writes: Iterable[Write], keys: Collection[str]
) -> None:
    """Fold a task's own writes to some keys into a copy of the state, which it changes."""
    grouped: dict[str, list[Any]] = {}
    for channel, value in writes:
        if channel in grouped:
            grouped[channel].append(value)
        elif channel in keys:
            grouped[channel] = [value]
    for channel, new in grouped.items():
        before = copied(fresh[channel]) if channel in fresh else EMPTY
        folded = plan.channels[channel].fold(channel, before, new)
        if folded is not UNCHANGED:
            fresh[channel] = folded


def copied(value: Any) -> Any:
    """Copy a value that an in-place reducer could change; others are returned as they are."""
    return copy(value) if type(value) in (list, dict, set) else value


def stamped(plan: Plan, writes: Iterable[Write], seed: str) -> list[Write]:
    """Complete the writes to channels whose reducer has a `stamp`: `(write, seed) -> write`.

    The seed says which write of which task it is, so that folding it again after a crash or for
    a snapshot gives the same ids.

    Args:
        seed: the id of the task that makes the writes.
    """
    stamps = plan.stamps
    if not stamps:
        return list(writes)
    return [
        (c, stamps[c](value, f"{seed}:{place}") if c in stamps else value)
        for place, (c, value) in enumerate(writes)
    ]

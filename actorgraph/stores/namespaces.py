"""Namespaces as data: which of them a listing shows, and how one is written as text.

As text the labels are joined by periods, which no label has. In UTF-8 the namespaces below
`a.b` are those from `a.b.` up to `a.b/`, as "/" follows ".": a range of an index.
"""

from collections.abc import Iterable

from actorgraph.stores.ops import ListNamespacesOp, MatchCondition, Namespace


def joined(namespace: Namespace) -> str:
    """A namespace as text."""
    return ".".join(namespace)


def parted(text: str) -> Namespace:
    """The namespace of a text."""
    return tuple(text.split(".")) if text else ()


def text_range(prefix: Namespace) -> tuple[str, str, str]:
    """The text of a prefix, and the range of the texts below it: the first, and one too far."""
    text = joined(prefix)
    return text, f"{text}.", f"{text}/"


def listed(op: ListNamespacesOp, there: Iterable[Namespace]) -> list[Namespace]:
    """What a listing shows of the namespaces that are there: sorted, each once."""
    found = {n[: op.max_depth] for n in there if _meets_all(n, op.match_conditions or ())}
    return sorted(found)[op.offset : op.offset + op.limit]


def plain_prefix(op: ListNamespacesOp) -> Namespace:
    """Labels that all its namespaces begin with, for a home that finds those fast."""
    for kind, path in op.match_conditions or ():
        if kind == "prefix":
            return tuple(path[: path.index("*")] if "*" in path else path)
    return ()


def _meets_all(namespace: Namespace, conditions: Iterable[MatchCondition]) -> bool:
    return all(_meets(namespace, kind, tuple(path)) for kind, path in conditions)


def _meets(namespace: Namespace, kind: str, path: Namespace) -> bool:
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))

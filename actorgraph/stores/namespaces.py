"""Namespaces as text, and which of them a listing shows."""

from collections.abc import Iterable

from actorgraph.stores.ops import ListNamespacesOp, MatchCondition, Namespace


def join_namespace(namespace: Namespace) -> str:
    """Return a namespace as text."""
    return ".".join(namespace)


def split_namespace(text: str) -> Namespace:
    """Return the namespace of a text."""
    return tuple(text.split(".")) if text else ()


def text_range(prefix: Namespace) -> tuple[str, str, str]:
    """Return a prefix as text, and the half-open range of the texts of namespaces below it."""
    text = join_namespace(prefix)
    return text, f"{text}.", f"{text}/"


def listed(op: ListNamespacesOp, there: Iterable[Namespace]) -> list[Namespace]:
    """Return the page of a listing: matching namespaces, sorted, each once."""
    found = {n[: op.max_depth] for n in there if _meets_all(n, op.match_conditions or ())}
    return sorted(found)[op.offset : op.offset + op.limit]


def plain_prefix(op: ListNamespacesOp) -> Namespace:
    """Return labels without wildcards that all namespaces of a listing begin with."""
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

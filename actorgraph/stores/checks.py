"""Validation of operations, before anything of their batch is carried out."""

from collections.abc import Iterable, Mapping
from typing import Any

from actorgraph.stores.errors import InvalidNamespaceError, InvalidStoreOperationError
from actorgraph.stores.ops import GetOp, ListNamespacesOp, Op, PutOp, SearchOp

INTEGER_MAX = 2**63 - 1
TTL_MAX = 10**11
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


def check_op(op: Any) -> None:
    """Refuse an invalid operation.

    Raises:
        InvalidNamespaceError: a namespace is invalid.
        InvalidStoreOperationError: another field is invalid, or the type is unknown.
    """
    match op:
        case GetOp():
            check_labels(op.namespace)
            check_key(op.key)
        case PutOp():
            check_labels(op.namespace) if op.value is None else check_namespace(op.namespace)
            check_key(op.key)
            _check_ttl(op.ttl)
        case SearchOp():
            check_labels(op.namespace_prefix)
            _check_filter(op.filter)
            _check_page(op.limit, op.offset)
            _check_query(op.query)
        case ListNamespacesOp():
            _check_listing(op)
        case _:
            raise InvalidStoreOperationError(
                f"Unknown operation type: {type(op).__name__}",
                do="use GetOp, PutOp, SearchOp or ListNamespacesOp",
            )


def check_namespace(namespace: Any) -> None:
    """Refuse a namespace in which no item can be stored.

    Raises:
        InvalidNamespaceError: it is empty, its root is "langgraph", or a label is invalid (see
            `check_labels`).
    """
    check_labels(namespace)
    if not namespace:
        raise InvalidNamespaceError(
            "Namespace cannot be empty.", do='use at least one label, such as ("users", "ada")'
        )
    if namespace[0] == "langgraph":
        raise InvalidNamespaceError(
            f'Root label for namespace cannot be "langgraph". Got: {namespace}',
            do="begin it with another label",
        )


def check_labels(namespace: Any) -> None:
    """Refuse a namespace with invalid labels.

    Raises:
        InvalidNamespaceError: it isn't a tuple or list, or a label isn't text, is empty, contains
            a period or NUL, or can't be encoded as UTF-8.
    """
    if isinstance(namespace, str | bytes) or not isinstance(namespace, tuple | list):
        raise InvalidNamespaceError(
            f"namespace must be a tuple of labels, got {namespace!r}",
            do='use a tuple of labels, such as ("users", "ada")',
        )
    for label in namespace:
        if isinstance(label, str) and label and "." not in label and _is_text(label):
            continue
        raise InvalidNamespaceError(
            f"Invalid namespace label {label!r} found in {namespace!r}: {_what_is_wrong(label)}",
            do="use non-empty text without '.' and NUL",
        )


def check_key(key: Any) -> None:
    """Refuse a key that some store can't hold.

    Raises:
        InvalidStoreOperationError: it isn't text, contains NUL, or can't be encoded as UTF-8.
    """
    if not isinstance(key, str) or not _is_text(key):
        raise InvalidStoreOperationError(
            f"key must be text without NUL and lone surrogates, got {key!r}",
            do="encode other data as text, such as hexadecimal digits",
        )


def checked_ops(ops: Iterable[Op]) -> list[Op]:
    """Return the operations of a batch, validated; LangGraph's as ours."""
    found = [_ours(op) for op in ops]
    for op in found:
        check_op(op)
    return found


_KINDS = {kind.__name__: kind for kind in (GetOp, SearchOp, PutOp, ListNamespacesOp)}


def _ours(op: Any) -> Any:
    kind = _KINDS.get(type(op).__name__)
    return op if kind is None or isinstance(op, kind) else kind(*op)


def _is_text(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _what_is_wrong(label: object) -> str:
    if not isinstance(label, str):
        return f"Namespace labels must be strings, but got {type(label).__name__}."
    if not label:
        return "Namespace labels cannot be empty strings."
    if "." in label:
        return "Namespace labels cannot contain periods ('.')."
    if "\0" in label:
        return "Namespace labels cannot contain NUL bytes."
    return "Namespace labels cannot contain lone surrogates."


def _check_listing(op: ListNamespacesOp) -> None:
    _check_page(op.limit, op.offset)
    if op.max_depth is not None:
        _check_count("max_depth", op.max_depth)
    for condition in op.match_conditions or ():
        check_labels(condition.path)
        if condition.match_type not in ("prefix", "suffix"):
            raise InvalidStoreOperationError(
                f"Unsupported match type: {condition.match_type!r}", do='use "prefix" or "suffix"'
            )


def _check_page(limit: Any, offset: Any) -> None:
    _check_count("limit", limit)
    _check_count("offset", offset)


def _check_count(name: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        raise InvalidStoreOperationError(
            f"{name} must be an integer >= 0, got {value!r}", do="use a whole number from 0 on"
        )


def _check_query(query: Any) -> None:
    if query is not None and not isinstance(query, str):
        raise InvalidStoreOperationError(
            f"query must be text or None, got {query!r}", do="pass text, or None"
        )


def _check_ttl(ttl: Any) -> None:
    if ttl is not None and (
        isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 <= ttl <= TTL_MAX
    ):
        raise InvalidStoreOperationError(
            f"ttl must be from 0 to {TTL_MAX} minutes or None, got {ttl!r}",
            do="use None for items that live for ever",
        )


def _check_filter(wanted: Any) -> None:
    if wanted is None:
        return
    if not isinstance(wanted, Mapping):
        raise InvalidStoreOperationError(
            f"filter must be a dict, got {type(wanted).__name__}",
            do='use a dict, such as {"kind": "note"}',
        )
    _check_fields(wanted)


def _check_fields(wanted: Any) -> None:
    """Refuse unknown operators, operators mixed with fields, and keys that aren't text."""
    if isinstance(wanted, list | tuple):
        for part in wanted:
            _check_condition(part)
        return
    if not isinstance(wanted, Mapping):
        return
    for name, condition in wanted.items():
        if not isinstance(name, str):
            raise InvalidStoreOperationError(
                f"keys of a filter must be text, got {name!r}", do="use names of fields"
            )
        _check_condition(condition)


def _check_condition(condition: Any) -> None:
    if not isinstance(condition, Mapping) or not any(
        isinstance(name, str) and name.startswith("$") for name in condition
    ):
        _check_fields(condition)
        return
    for name in condition:
        if name not in OPERATORS:
            raise InvalidStoreOperationError(
                f"Unsupported operator: {name!r}",
                do=f"use {', '.join(OPERATORS)}; a field of that name is compared by "
                '{"$eq": {...}} of the value around it',
            )

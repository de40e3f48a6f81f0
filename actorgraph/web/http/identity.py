"""The identity of a run: named by the server alone, never by a client.

LangGraph's server names the request's user, assistant and graph in a run's `configurable`, and so
does this one (`identity_of`). Nodes trust these names, so a client that sends one of them is
refused (`check_claims`), wherever what it sends would reach a node.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.problems import Unprocessable

_AUTH = "langgraph_auth_"
CLAIMS = frozenset(
    {"assistant_id", "graph_id", "run_id", "user_id", "langgraph_request_id"}
    | {_AUTH + rest for rest in ("user", "user_id", "permissions")}
)
"""Names that the server fills. Others that begin with `langgraph_auth_` are refused with them."""

_NONE = object()


def is_claim(name: object) -> bool:
    """Whether the server alone may fill a key."""
    return isinstance(name, str) and (name in CLAIMS or name.startswith(_AUTH))


def check_claims(place: str, said: Mapping[str, Any]) -> None:
    """Refuse names that the server fills.

    Args:
        place: what the client sent them in, for the error.
    Raises:
        ValueError: there is one.
    """
    for name in said:
        if is_claim(name):
            msg = f"{place}.{name} is filled by the server: leave it out, or use another name"
            raise ValueError(msg)


def without_claims(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings without names that the server fills, which older versions took."""
    return {name: value for name, value in said.items() if not is_claim(name)}


def check_labels(said: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> None:
    """Refuse metadata of a thread that the server fills.

    Not `graph_id`, with which LangGraph's clients choose the graph that reads the thread, and not
    entries that the thread has: a client may send back what it has read.

    Args:
        stored: the thread's metadata.
    Raises:
        Unprocessable: there is such an entry.
    """
    new = {k: v for k, v in (said or {}).items() if k != "graph_id" and stored.get(k, _NONE) != v}
    try:
        check_claims("metadata", new)
    except ValueError as error:
        raise Unprocessable(str(error)) from None


def stored_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored body of runs without names that the server fills in config and context."""
    found = dict(settings)
    for name in ("context", "configurable", "metadata"):
        if isinstance(found.get(name), dict):
            found[name] = without_claims(found[name])
    if isinstance(found.get("config"), dict):
        found["config"] = stored_settings(found["config"])
    return found


def identity_of(principal: Any, assistant: str, graph: str) -> dict[str, Any]:
    """Return what the server says about a run in its `configurable`.

    Args:
        principal: as `authenticate` returned it; None if the client is unknown.
        assistant: id of the assistant.
        graph: name of its graph.
    """
    known: dict[str, Any] = {
        "assistant_id": assistant,
        "graph_id": graph,
        "langgraph_request_id": str(uuid4()),
    }
    user = user_of(principal)
    if user is not None:
        known["langgraph_auth_user"] = user
        known["langgraph_auth_user_id"] = known["user_id"] = user["identity"]
        known["langgraph_auth_permissions"] = user["permissions"]
    return known


def user_of(principal: Any) -> dict[str, Any] | None:
    """Return an authenticated user as plain data; None for an unknown one.

    The identity is the principal's text, its `identity`, or of a mapping also its `sub`. A mapping
    is kept whole; of an object only what LangGraph's users have, because it may hold secrets.
    """
    if isinstance(principal, str | int) and not isinstance(principal, bool):
        return _user(str(principal), {})
    if isinstance(principal, Mapping):
        said: dict[str, Any] = to_plain(principal)
        identity = said.get("identity", said.get("sub"))
        return None if identity is None else _user(str(identity), said)
    if getattr(principal, "is_authenticated", True) is not True:
        return None
    try:
        identity = getattr(principal, "identity", None)
    except NotImplementedError:  # starlette's users have none unless a subclass says so
        identity = getattr(principal, "display_name", None)
    if identity is None:
        return None
    parts = {n: getattr(principal, n, None) for n in ("display_name", "permissions")}
    return _user(str(identity), to_plain({n: part for n, part in parts.items() if part}))


def name_of(principal: Any) -> str | None:
    """Return the text of an authenticated principal; None for an unknown one."""
    user = user_of(principal)
    return None if user is None else user["identity"]


def _user(identity: str, said: dict[str, Any]) -> dict[str, Any]:
    permissions = said.get("permissions")
    return {
        "display_name": identity,
        **said,
        "identity": identity,
        "is_authenticated": True,
        "permissions": permissions if isinstance(permissions, list) else [],
    }

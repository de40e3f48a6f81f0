"""The user of a served run, as nodes see it: LangGraph's `BaseUser` over the stored data."""

from collections.abc import Iterator, Mapping
from typing import Any, cast


class ServedUser(Mapping[str, Any]):
    """An authenticated user, whose parts are read as attributes and as items.

    Args:
        parts: as the server stored them; `identity` is one of them.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = dict(parts)

    @property
    def identity(self) -> str:
        """The name that authentication knows the user by."""
        return str(self._parts["identity"])

    @property
    def display_name(self) -> str:
        """The name to show; default: the identity."""
        return str(self._parts.get("display_name", self.identity))

    @property
    def is_authenticated(self) -> bool:
        """Whether the user is known; True."""
        return True

    @property
    def permissions(self) -> list[str]:
        """The permissions that authentication gave the user; default: none."""
        return list(self._parts.get("permissions") or ())

    def __getattr__(self, name: str) -> Any:
        """Return another part."""
        if name.startswith("_") or name not in self._parts:
            raise AttributeError(name)
        return self._parts[name]

    def __getitem__(self, key: str) -> Any:
        """Return a part."""
        return self._parts[key]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the parts."""
        return iter(self._parts)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._parts)

    def __repr__(self) -> str:
        """Return the identity, without other parts, which may be secret."""
        return f"ServedUser({self.identity!r})"


def served_user(place: Mapping[str, Any]) -> Any:
    """Return the user that a config's `configurable` names; None if it names none.

    A server stores the user as plain data and its id beside it. A dict alone is not an
    authenticated user, as in LangGraph.
    """
    user = place.get("langgraph_auth_user")
    if isinstance(user, Mapping) and not hasattr(user, "identity"):
        parts = cast("Mapping[str, Any]", user)
        identity = parts.get("identity")
        is_served = identity is not None and identity == place.get("langgraph_auth_user_id")
        return ServedUser(parts) if is_served else None
    return user if hasattr(user, "identity") else None

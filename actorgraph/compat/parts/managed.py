"""Names about managed values and users."""

from typing import Any, Protocol, runtime_checkable

from actorgraph.plan.schema import Managed

ManagedValueSpec = type[Managed]
ManagedValueMapping = dict[str, ManagedValueSpec]
RemainingStepsManager = Managed


@runtime_checkable
class BaseUser(Protocol):
    """A user that a server has authenticated."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the server knows who it is."""
        ...

    @property
    def display_name(self) -> str:
        """The name to show."""
        ...

    @property
    def identity(self) -> str:
        """The id by which the server knows the user."""
        ...

    def __getitem__(self, key: Any) -> Any:
        """Return another field of the user."""
        ...

"""Errors of stores."""

from actorgraph.errors import ActorGraphError


class StoreError(ActorGraphError):
    """Base class of errors about an operation. Nothing of its batch was carried out."""


class InvalidNamespaceError(StoreError, ValueError):
    """A namespace is empty, or one of its labels is invalid."""


class InvalidStoreOperationError(StoreError, ValueError):
    """A key, filter, limit or other argument of an operation is invalid."""


class ItemValueError(StoreError, TypeError, ValueError):
    """A value can't be stored as JSON; the message names the path of the problem."""


class EmbeddingError(StoreError, ValueError):
    """An embedding function did not return one vector of `dims` numbers per text."""


class UnsupportedByStoreError(StoreError, NotImplementedError):
    """The store doesn't support this feature, such as a time to live."""

"""What a store refuses, and what it can't do."""

from actorgraph.errors import ActorGraphError


class StoreError(ActorGraphError):
    """Base of what stores raise about an operation. Nothing of its batch was carried out."""


class InvalidNamespaceError(StoreError, ValueError):
    """A namespace is empty, or one of its labels can't be used."""


class InvalidStoreOperationError(StoreError, ValueError):
    """A key, a filter, a limit or another argument of an operation can't be used."""


class ItemValueError(StoreError, TypeError, ValueError):
    """A value can't be stored: JSON has no such thing; the text names its path."""


class EmbeddingError(StoreError, ValueError):
    """An embedding function gave something else than one vector of `dims` numbers per text."""


class UnsupportedByStoreError(StoreError, NotImplementedError):
    """The store doesn't have this ability, such as a time to live."""

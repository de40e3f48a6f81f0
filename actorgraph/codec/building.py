"""Make values of a program's types of their stored data: by the class of today, or a migration.

A class may have other fields than it had when a value was stored. Data that it refuses is an error
with the Migration to write, wherever the value is: in a state, a Send, a question, an answer, the
result of a task, the input or the context of a run.
"""

from collections.abc import Callable
from typing import Any

from actorgraph.codec.decode_errors import changed_type_error, upgrade_error
from actorgraph.codec.stored_types import PATTERN, Extension, extension_of
from actorgraph.errors import ActorGraphError


def build_named(
    extension: Extension, kind: type, name: str, data: Any, *, migrated: bool = False
) -> Any:
    """Build a value of a class.

    Args:
        name: of its type, as stored.
        migrated: whether a migration gives the class the data of another one.
    Raises:
        ChangedTypeError: the class doesn't take the data.
    """
    # Otherwise a forged row could choose the code that builds a class, e.g. its constructor.
    if not migrated and extension_of(kind) is not extension:
        msg = f"it isn't stored with the extension code {extension.code}"
        raise changed_type_error(name, ValueError(msg))
    try:
        return extension.build(kind, data)
    except (MemoryError, ActorGraphError):
        raise
    except Exception as error:  # a constructor of the program's may raise anything
        if extension is PATTERN:
            raise  # no class of a program
        raise changed_type_error(name, error) from error


def upgraded(function: Callable[[Any], Any], name: str, data: Any) -> Any:
    """Build a value by a function of `Migration.types`.

    Raises:
        ChangedTypeError: the function raised.
    """
    try:
        return function(data)
    except (MemoryError, ActorGraphError):
        raise
    except Exception as error:
        raise upgrade_error(name, error) from error

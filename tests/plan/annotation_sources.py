"""Classes and functions whose annotations are texts, as `from __future__ import annotations` makes.

Some name what exists for type checkers only, and some classes of the function around them.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from pydantic import BaseModel
from typing_extensions import TypedDict

from actorgraph import Command
from actorgraph.prebuilt import InjectedState

if TYPE_CHECKING:
    from nowhere import Receipt, shop

Class = type[Any]


class Item(TypedDict):
    """A class of the module, of which functions have others with the same name."""

    wrong: int


def local_classes(read: Callable[[Class], Any]) -> tuple[Class, list[tuple[Class, Any]]]:
    """Make a schema of each kind that names another class of this function, and read it here.

    Returns: the other class; each schema with what `read` returned.
    """

    class Item(TypedDict):
        price: int

    class Dict(TypedDict):
        items: Annotated[list[Item], operator.add]

    class Model(BaseModel):
        items: Annotated[list[Item], operator.add]

    @dataclasses.dataclass
    class Data:
        items: Annotated[list[Item], operator.add]

    class Struct(msgspec.Struct):
        items: Annotated[list[Item], operator.add]

    return Item, [(kind, read(kind)) for kind in (Dict, Model, Data, Struct)]


class Shop:
    """A class whose methods name a class inside it."""

    class Item(TypedDict):
        """Be the class that the methods mean."""

        price: int

    def list(self, item: Item) -> list[int]:
        """Have the name of a type that annotations use."""
        return [item["price"]]

    def __call__(self, item: Item) -> Command[Literal["pay"]]:
        """Be a node."""
        raise NotImplementedError


def kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def partly(
    amount: int,
    user: Annotated[Receipt, InjectedState("user")],
    other: Annotated[str, shop.Mark("x")],
    last: Receipt | None = None,
) -> Command[Literal["a", "b"]] | Receipt:
    """Name what only type checkers know."""
    raise NotImplementedError

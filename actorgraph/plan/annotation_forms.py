"""The forms that an annotation can take, and what each means: pure functions of resolved ones.

`Annotated[list, add]` may be written through a type alias or a NewType, inside Optional, Required,
NotRequired, ReadOnly, Final or ClassVar, around any of these, and with other extras on either
side. `form_of` gives the same answer for all: the type, and the extras in their order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin, is_typeddict

DEPTH_MAX = 50
"""Forms inside one another that are looked into."""
PARTS_MAX = 10_000
"""Parts of one annotation that are looked at: an alias may name itself with other arguments."""

_WRAPPERS = ("ClassVar", "Final", "NotRequired", "ReadOnly", "Required")
_LISTS = (list, tuple, Sequence)
_TYPING = ("typing", "typing_extensions")


class Unknown:
    """A name in an annotation that no scope has; it takes the place of a type or of an extra.

    Attributes:
        text: as written.
        why: the reason, a sentence without a full stop.
    """

    __slots__ = ("text", "why")

    def __init__(self, text: str, why: str) -> None:
        self.text = text
        self.why = why

    def __repr__(self) -> str:
        return self.text

    def __getattr__(self, name: str) -> "Unknown":
        if name.startswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self.text}.{name}", self.why)

    def __getitem__(self, item: Any) -> "Unknown":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> "Unknown":
        """Return it for the mark that a call of the unknown class would make."""
        return self

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - `|` calls this method

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007 - `|` calls this method


@dataclass(frozen=True, slots=True)
class AnnotationForm:
    """An annotation without its wrapping.

    Attributes:
        typ: the type; without Annotated, aliases and qualifiers.
        extras: what any Annotated adds to it, also to members of a union, from inside to outside.
    """

    typ: Any
    extras: tuple[Any, ...] = ()


def form_of(annotation: Any, depth: int = 0) -> AnnotationForm:
    """Take an annotation apart."""
    if depth > DEPTH_MAX:
        return AnnotationForm(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        form = form_of(inner, depth + 1)
        return AnnotationForm(form.typ, (*form.extras, *extras))
    if origin in (Union, UnionType):
        members = get_args(annotation)
        forms = [form_of(member, depth + 1) for member in members]
        changed = any(form.typ is not m for form, m in zip(forms, members, strict=True))
        typ = _union([form.typ for form in forms]) if changed else annotation
        return AnnotationForm(typ, tuple(extra for form in forms for extra in form.extras))
    inside = _inside(annotation)
    return AnnotationForm(annotation) if inside is annotation else form_of(inside, depth + 1)


def _union(members: list[Any]) -> Any:
    return Union[tuple(members)]  # noqa: UP007 - the members are known only here


def _inside(annotation: Any) -> Any:
    """Remove one qualifier, alias or NewType; returns others unchanged."""
    origin = get_origin(annotation)
    if _is_wrapper(origin):
        return get_args(annotation)[0]
    if _is_wrapper(annotation):  # `Final` alone
        return Any
    if isinstance(annotation, NewType) or type(annotation).__name__ == "NewType":
        return annotation.__supertype__
    if _is_alias(annotation):
        return _value_of(annotation)
    if _is_alias(origin):
        bound = dict(zip(origin.__type_params__, get_args(annotation), strict=False))
        return substitute(_value_of(origin), bound)
    return annotation


def _is_wrapper(thing: Any) -> bool:
    kind = type(thing)
    if kind.__module__ not in _TYPING:
        return False
    return getattr(thing, "_name", None) in _WRAPPERS and not isinstance(thing, type)


def _is_alias(thing: Any) -> bool:
    kind = type(thing)
    return kind.__name__ == "TypeAliasType" and kind.__module__ in _TYPING


def _value_of(alias: Any) -> Any:
    try:
        return alias.__value__
    except Exception as error:  # noqa: BLE001 - it is evaluated now, and may raise anything
        return Unknown(alias.__name__, f"{error}")


def members_of(annotation: Any) -> tuple[Any, ...]:
    """List the members of a union, without their wrapping; the type itself if it is none."""
    typ = form_of(annotation).typ
    if get_origin(typ) not in (Union, UnionType):
        return (typ,)
    return get_args(typ)


def items_of(annotation: Any) -> tuple[Any, ...]:
    """List the members of a union, with the members of its items in place of a list or tuple."""
    found: list[Any] = []
    for member in members_of(annotation):
        origin = get_origin(member)
        if isinstance(origin, type) and origin in _LISTS:
            found += [one for arg in get_args(member) if arg is not ... for one in members_of(arg)]
        else:
            found.append(member)
    return tuple(found)


def literals_of(annotation: Any) -> tuple[Any, ...]:
    """List the values of a Literal, of a union or a list of them, with or without None; else ()."""
    members = [member for member in items_of(annotation) if member is not NoneType]
    if not all(get_origin(member) is Literal for member in members):
        return ()
    return tuple(dict.fromkeys(value for member in members for value in get_args(member)))


def parts_of(annotation: Any) -> Iterator[Any]:
    """Yield the annotations, and extras, that an annotation is directly made of."""
    origin = get_origin(annotation)
    if origin is Literal:
        return
    inside = _inside(annotation)
    if inside is not annotation:
        yield inside
    elif isinstance(annotation, list):
        yield from annotation
    elif origin is not None:
        yield from (origin, *get_args(annotation))


def unknown_in(annotation: Any) -> Unknown | None:
    """Return the first unresolved name in an annotation, or None."""
    return next((one for one in walked(annotation) if isinstance(one, Unknown)), None)


def walked(annotation: Any, seen: set[Any] | None = None) -> Iterator[Any]:
    """Yield an annotation and everything in it, from outside to inside, each thing once.

    Args:
        seen: the parts that were yielded before, which are passed over; new ones are added.
    """
    seen = set() if seen is None else seen
    left = [annotation]
    for _ in range(PARTS_MAX):
        if not left:
            return
        one = left.pop()
        if _is_hashable(one):
            if one in seen:
                continue
            seen.add(one)
        yield one
        left += reversed([*parts_of(one)])


def is_typed_dict(candidate: object) -> bool:
    """Whether a class is a TypedDict of `typing` or of `typing_extensions`."""
    return is_typeddict(candidate) or (
        isinstance(candidate, type)
        and issubclass(candidate, dict)
        and hasattr(candidate, "__required_keys__")
    )


# ----- generic classes -------------------------------------------------------------------------


def class_of(source: Any) -> Any:
    """Return the class of a generic one with its arguments, as `State` of `State[int]`."""
    origin = get_origin(source)
    return origin if isinstance(origin, type) else source


def substitute(annotation: Any, bound: Mapping[Any, Any]) -> Any:
    """Replace type parameters in an annotation."""
    if not bound:
        return annotation
    if not isinstance(annotation, type) and _is_hashable(annotation) and annotation in bound:
        return bound[annotation]
    parameters = _parameters_of(annotation) if _takes_arguments(annotation) else ()
    if not any(parameter in bound for parameter in parameters):
        return annotation
    generic: Any = annotation
    try:
        return generic[tuple(bound.get(parameter, parameter) for parameter in parameters)]
    except TypeError:
        return annotation


def _takes_arguments(annotation: Any) -> bool:
    return get_origin(annotation) is not None or _pydantic_origin(annotation) is not None


def bound_parameters(source: Any) -> dict[type, Mapping[Any, Any]]:
    """Make class -> {type parameter: argument or default} of a class and its generic bases.

    In the order of inheritance, bases first.
    """
    found: dict[type, Mapping[Any, Any]] = {}
    _bind(source, {}, found, 0)
    return found


def _bind(
    source: Any, outer: Mapping[Any, Any], found: dict[type, Mapping[Any, Any]], depth: int
) -> None:
    cls, given = class_of(source), get_args(source)
    if (made := _pydantic_origin(source)) is not None:
        cls, given = made
    if not isinstance(cls, type) or depth > DEPTH_MAX:
        return
    bound: dict[Any, Any] = {}
    for place, parameter in enumerate(_parameters_of(cls)):
        if place < len(given):
            bound[parameter] = substitute(given[place], outer)
        elif _has_default(parameter):
            bound[parameter] = substitute(parameter.__default__, bound)
    for base in vars(cls).get("__orig_bases__", cls.__bases__):
        _bind(base, bound, found, depth + 1)
    found.setdefault(cls, bound)


def _parameters_of(thing: Any) -> tuple[Any, ...]:
    pydantic = getattr(thing, "__pydantic_generic_metadata__", None)
    if isinstance(thing, type) and pydantic is not None:
        return tuple(pydantic["parameters"])
    found = getattr(thing, "__parameters__", ())
    return found if isinstance(found, tuple) else ()


def _pydantic_origin(thing: Any) -> tuple[type, tuple[Any, ...]] | None:
    """Return the generic model of which pydantic has made a class, and the arguments."""
    metadata = getattr(thing, "__pydantic_generic_metadata__", None)
    if not isinstance(thing, type) or not metadata or metadata["origin"] is None:
        return None
    return metadata["origin"], tuple(metadata["args"])


def _has_default(parameter: Any) -> bool:
    has_default = getattr(parameter, "has_default", None)
    return bool(has_default is not None and has_default())


def _is_hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True

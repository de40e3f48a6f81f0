"""Converters: types of other packages, stored as plain data by a pair of the program's functions.

Stored     the type's name, the converter's version, and the data; all as any other value, so that
           its bounds, encryption and JSON form hold
Exact      a value is built again when it is stored, and refused if it isn't the same
Read       by the converter of that name alone: nothing is imported
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from actorgraph.codec.stored_types import builtin_of, name_of
from actorgraph.errors import InvalidConfigError, UnknownTypeError

_PLAIN = frozenset({type(None), bool, int, float, str, bytes, list, dict, object})


@dataclass(frozen=True, slots=True)
class Converter:
    """The stored form of one type's values.

    Attributes:
        to_plain: value -> data that can be stored itself: text, bytes, numbers, lists, dicts,
            arrays of numpy, declared types, or values of other converters.
        from_plain: that data -> an equal value of the same type.
        version: stored with each value, from 1 up. Raise it when `to_plain` returns another form
            of data, and give the function for the data of before in `older`.
        older: version -> function that builds a value of its data.
        check: whether each value is built again when it is stored, and compared. Default True.
            False saves that time; a value that comes back changed is then not noticed.
    """

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    version: int = 1
    older: Mapping[int, Callable[[Any], Any]] = field(
        default_factory=dict[int, Callable[[Any], Any]]
    )
    check: bool = True


ConverterPair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""`(to_plain, from_plain)`: short for a `Converter` of version 1."""


class Converters:
    """The converters of a codec, by type and by the type's stored name.

    Args:
        given: type -> converter, or `(to_plain, from_plain)`.
    Attributes:
        by_type: type -> converter. Not modified.
    Raises:
        InvalidConfigError: a key isn't a type, or is one whose values are stored without a
            converter, or an abstract one, which no value has; a converter isn't two functions; a
            version isn't a number from 1 up, or an older one isn't below it.
    """

    __slots__ = ("_by_name", "by_type")

    def __init__(self, given: Mapping[type, Converter | ConverterPair] | None = None) -> None:
        self.by_type: dict[type, Converter] = {}
        self._by_name: dict[str, tuple[type, Converter]] = {}
        for kind, pair in (given or {}).items():
            _check_type(kind)
            name = name_of(kind)
            if name in self._by_name:
                raise InvalidConfigError(
                    f"converters= has two types with the stored name {name!r}",
                    do="give one of the classes another name",
                )
            self.by_type[kind] = converter = _checked(name, pair)
            self._by_name[name] = (kind, converter)

    def base_of(self, kind: type) -> type | None:
        """Return the converted type that a class is derived from, if any."""
        return next((base for base in kind.__mro__[1:] if base in self.by_type), None)

    def form(self, value: Any) -> list[Any]:
        """Return the stored form of a value: name, version and data.

        Raises:
            TypeError: `to_plain` returns a value of the type again. Else what `to_plain` raises.
        """
        kind = cast("type[Any]", type(value))
        converter = self.by_type[kind]
        data = converter.to_plain(value)
        if type(data) is kind:
            msg = f"to_plain of the converter of {name_of(kind)} returns a {kind.__name__} again"
            raise TypeError(msg)
        return [name_of(kind), [converter.version, data]]

    def check(
        self, value: Any, read: Callable[[], list[Any]], encode: Callable[[Any], bytes]
    ) -> None:
        """Refuse a value that isn't the one which is built of its stored form.

        Args:
            read: reads the stored form anew, of its bytes: `from_plain` may take it to pieces, and
                data can come back as others, as an exception does.
            encode: encodes values without checks, for the comparison of those that don't compare.
        Raises:
            TypeError: another value, or one of another type. Else what `from_plain` raises.
        """
        kind = cast("type[Any]", type(value))
        converter = self.by_type[kind]
        if not converter.check:
            return
        made = converter.from_plain(read()[1][1])
        if type(made) is not kind:
            msg = f"its converter's from_plain returns a {name_of(type(made))}"
            raise TypeError(msg)
        same = _compare(made, value)
        # A value that is unlike itself, as one with NaN, or that doesn't compare: its data do.
        if same is None or (not same and not _compare(value, value)):
            same = encode(made) == encode(value)
        if not same:
            msg = "its converter's from_plain(to_plain(value)) returns another value"
            raise TypeError(msg)

    def build(self, name: str, stored: Any, target: type | None = None) -> Any:
        """Build a value of its stored version and data.

        Args:
            target: the type that has taken the place of the stored one (`Migration.types`).
        Raises:
            UnknownTypeError: no converter has this name or reads this version.
            ValueError: the stored data are damaged, or the function returns another type.
        """
        version, data = stored
        known = self._by_name.get(name if target is None else name_of(target))
        if known is None:
            raise _unknown_error(name, self._by_name)
        kind, converter = known
        build = converter.from_plain
        if version != converter.version:
            if version not in converter.older:
                raise _version_error(name, version, converter)
            build = converter.older[version]
        try:
            made = build(data)
        except Exception as error:
            msg = f"the converter of {name} raises {type(error).__name__}: {error}"
            raise ValueError(msg) from error
        if type(made) is not kind:
            msg = f"the converter of {name} returns a {name_of(type(made))}"
            raise ValueError(msg)
        return made


def _check_type(kind: Any) -> None:
    if not isinstance(kind, type):
        raise InvalidConfigError(
            f"converters= has the key {kind!r}, which is not a type",
            do="give converters={Type: (to_plain, from_plain)}",
        )
    if kind in _PLAIN or builtin_of(kind) is not None:
        raise InvalidConfigError(
            f"converters= has {name_of(kind)}, whose values are always stored as they are",
            do="leave it out; a converter is for a class of its own",
        )
    if inspect.isabstract(kind) or getattr(kind, "_is_protocol", False):
        raise InvalidConfigError(
            f"converters= has {name_of(kind)}, which is abstract: no value has exactly this type",
            do="name the classes whose values are stored",
        )


def _checked(name: str, given: Any) -> Converter:
    if type(given) is tuple and len(cast("tuple[Any, ...]", given)) == 2:
        given = Converter(*cast("tuple[Any, Any]", given))
    if not isinstance(given, Converter):
        raise InvalidConfigError(
            f"the converter of {name} must be (to_plain, from_plain) or a Converter, got {given!r}",
            do="give two functions: value -> plain data, and plain data -> value",
        )
    functions = (given.to_plain, given.from_plain, *given.older.values())
    for function in functions:
        if not callable(function):
            raise InvalidConfigError(
                f"the converter of {name} has {function!r}, which can't be called",
                do="give two functions: value -> plain data, and plain data -> value",
            )
    for version in (given.version, *given.older):
        if type(version) is not int or not 1 <= version <= given.version:
            raise InvalidConfigError(
                f"the converter of {name} has the version {version!r}",
                do="count versions from 1; those in older= are below version=",
            )
    if given.version in given.older:
        raise InvalidConfigError(
            f"the converter of {name} has two functions for version {given.version}",
            do="raise version=, and keep in older= what reads the data of before",
        )
    return given


def _compare(one: Any, other: Any) -> bool | None:
    """Whether two values of one class are equal; None if the class doesn't say so by a bool."""
    kind = cast("type[Any]", type(one))
    methods: tuple[Any, ...] = (kind.__eq__, *(getattr(kind, n, None) for n in ("equals", "equal")))
    for compare in methods:
        if compare is None or compare is object.__eq__:
            continue
        try:
            said = compare(one, other)
        except Exception:  # noqa: BLE001, S112 - a library may refuse to compare
            continue
        if type(said) is bool:
            return said
    return None


def _unknown_error(name: str, known: Iterable[str]) -> UnknownTypeError:
    module, _, short = name.rpartition(":")
    moved = next((one for one in known if one.rpartition(":")[2] == short), None)
    if moved is not None:
        script = " (so a program names its classes that is run itself)" * (module == "__main__")
        error = UnknownTypeError(
            f"a stored value has the type {name!r}{script}, which a converter has written, and "
            f"this codec has one for {moved!r}",
            do=f"if it is the same class, compile(migrations=[Migration(types={{{name!r}: "
            f"{short}}})]); let programs that share threads import it from one module",
        )
        error.type_name = name
        return error
    error = UnknownTypeError(
        f"a stored value has the type {name!r}, which a converter has written, and this codec has "
        "no converter for it",
        do=f"pass codec=Codec(converters={{{short}: (to_plain, from_plain)}}) to the saver, as the "
        f"program that stored it; if the type has moved, Migration(types={{{name!r}: {short}}})",
    )
    error.type_name = name
    return error


def _version_error(name: str, version: Any, converter: Converter) -> UnknownTypeError:
    if type(version) is int and version > converter.version:
        do = "read it with the newer program, whose converter has that version"
    else:
        do = f"give Converter(older={{{version!r}: function}}), which builds a value of its data"
    return UnknownTypeError(
        f"a stored {name!r} has the converter's version {version!r}, which the codec's converter "
        f"of version {converter.version} doesn't read",
        do=do,
    )

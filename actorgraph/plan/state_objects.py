"""Classes of states: their fields, defaults and aliases, and objects of them in both directions.

Five kinds of class have fields: dataclasses, pydantic's models and dataclasses, `msgspec.Struct`
and attrs' classes; a TypedDict has keys without defaults. Here is what each says about

- its fields: the keys of the state, by the names that nodes use (`fields_in`, `Fields`);
- the value with which a key begins (`Default`);
- the names under which callers outside of the graph give a key (`Fields.aliases`, `by_name`);
- the object that a node gets, made of the keys' values (`maker`);
- what an object of it writes (`written_by`).

docs/state.md has the rules as a table, and `tests/api/test_state_objects.py` is that table.
Nothing is imported: a class of a library exists only where the program has imported it.
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time, timedelta
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID
from weakref import WeakKeyDictionary

import msgspec

from actorgraph.errors import SchemaError
from actorgraph.plan.annotations import class_annotations

_NOTHING: Final[Any] = object()

IMMUTABLE = (str, bytes, int, float, complex, frozenset, type, Enum, date, time, timedelta, UUID)
"""Types whose values can't be changed in place."""


class Default:
    """The default of a field: a value, or a factory.

    Attributes:
        factory: of a new value for each object; None for a constant.
        needs: what the factory takes: "self" (attrs), "data" (pydantic's validated fields), "".
    """

    __slots__ = ("_copies", "_value", "factory", "needs")

    def __init__(
        self,
        value: Any = _NOTHING,
        factory: Callable[..., Any] | None = None,
        *,
        needs: str = "",
        copies: bool = False,
    ) -> None:
        self._value = value
        self.factory = factory
        self._copies = copies and not (value is None or isinstance(value, IMMUTABLE))
        self.needs = needs

    @property
    def constant(self) -> bool:
        """Whether it is a value and not a factory."""
        return self.factory is None

    @property
    def is_none(self) -> bool:
        """Whether it is None: a reducer's first write meets no value, not None."""
        return self.factory is None and self._value is None

    def make(self) -> Any:
        """Make the value, as the class's constructor does; without an object, so not if `needs`."""
        if self.factory is not None:
            return self.factory()
        return copy.deepcopy(self._value) if self._copies else self._value

    def is_same(self, value: Any) -> bool:
        """Whether a value equals the default; False if nothing says so."""
        if self.needs:
            return False
        if self.factory is None and value is self._value:
            return True
        try:
            made = self.factory() if self.factory is not None else self._value
            return type(value) is type(made) and bool(value == made)
        except Exception:  # noqa: BLE001 - a program's factory or `==` may raise anything
            return False


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a class. It holds no reference to the class.

    Attributes:
        names: the fields, in the order of the class.
        defaults: of those that have one.
        aliases: name outside -> field.
        paths: field -> the place of its value in a nested input, as pydantic's AliasPath.
        inputs: field -> the constructor's argument, where it has another name than the field.
        late: fields that the constructor doesn't take.
        derived: those of them that the class computes of the others.
        records: whether an object knows which of its fields were set.
        types: of attrs' fields that have one and no annotation.
        forbids: whether the class refuses keys that it doesn't have.
        missing: an argument that the constructor needs besides the fields; "" for none.
    """

    names: tuple[str, ...]
    defaults: Mapping[str, Default] = dataclasses.field(default_factory=dict[str, Default])
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    paths: Mapping[str, tuple[Any, ...]] = dataclasses.field(
        default_factory=dict[str, tuple[Any, ...]]
    )
    inputs: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    late: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
    records: bool = False
    types: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    forbids: bool = False
    missing: str = ""


_KNOWN: WeakKeyDictionary[type, Fields | None] = WeakKeyDictionary()


def fields_in(kind: type) -> Fields | None:
    """Return the fields of a class; None for a TypedDict and for a class of another kind."""
    try:
        return _KNOWN[kind]
    except KeyError:
        found = _KNOWN[kind] = _read(kind)
        return found


def has_fields(kind: object) -> bool:
    """Whether it is a class with fields, of one of the five kinds."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind)
        or hasattr(kind, "model_fields")
        or hasattr(kind, "__struct_fields__")
        or hasattr(kind, "__attrs_attrs__")
    )


def _read(kind: Any) -> Fields | None:
    if hasattr(kind, "__struct_fields__"):
        return _of_struct(kind)
    if hasattr(kind, "model_fields"):
        return _of_model(kind.model_fields, kind.model_config, records=True)
    if dataclasses.is_dataclass(kind):
        known: Any = getattr(kind, "__pydantic_fields__", None)
        of_model = None
        if known is not None:
            of_model = _of_model(known, getattr(kind, "__pydantic_config__", {}), records=False)
        return _of_dataclass(kind, of_model)
    if getattr(kind, "__attrs_attrs__", None) is not None:
        return _of_attrs(kind)
    return None


def _of_struct(kind: Any) -> Fields:
    names: tuple[str, ...] = kind.__struct_fields__
    renamed = zip(names, kind.__struct_encode_fields__, strict=True)
    defaults: dict[str, Default] = {}
    given: tuple[Any, ...] = kind.__struct_defaults__
    for name, default in zip(names[len(names) - len(given) :], given, strict=True):
        factory = getattr(default, "factory", None)
        if type(default).__module__.startswith("msgspec") and factory is not None:
            defaults[name] = Default(factory=factory)
        elif default is not msgspec.NODEFAULT:
            defaults[name] = Default(default)
    aliases = {encoded: n for n, encoded in renamed if encoded != n}
    forbids = bool(kind.__struct_config__.forbid_unknown_fields)
    return Fields(names, defaults, aliases, forbids=forbids)


def _of_dataclass(kind: Any, model: Fields | None) -> Fields:
    fields = dataclasses.fields(kind)
    defaults: dict[str, Default] = {}
    for field in fields:
        if model is not None and field.name in model.defaults:
            defaults[field.name] = model.defaults[field.name]
        elif model is not None and field.name in model.names:
            continue
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = Default(factory=field.default_factory)
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = Default(field.default)
    late = frozenset(field.name for field in fields if not field.init)
    derived = late.difference(defaults) if hasattr(kind, "__post_init__") else frozenset[str]()
    made = model or Fields(())
    return dataclasses.replace(
        made,
        names=tuple(field.name for field in fields),
        defaults=defaults,
        late=late,
        derived=derived,
        missing=_init_var(kind),
    )


def _init_var(kind: Any) -> str:
    """The first InitVar without a default: a state has no value for it."""
    known: Mapping[str, Any] = kind.__dataclass_fields__
    for name, field in known.items():
        kept = getattr(field, "_field_type", None)
        if (
            getattr(kept, "name", "") == "_FIELD_INITVAR"
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            return name
    return ""


def _of_attrs(kind: Any) -> Fields:
    attributes: Any = kind.__attrs_attrs__
    defaults: dict[str, Default] = {}
    derived: set[str] = set()
    for each in attributes:
        factory = getattr(each.default, "factory", None)
        if factory is not None and hasattr(each.default, "takes_self"):
            needs = "self" if each.default.takes_self else ""
            defaults[each.name] = Default(factory=factory, needs=needs)
            if needs and not each.init:
                derived.add(each.name)
        elif type(each.default).__name__ != "_Nothing":
            defaults[each.name] = Default(each.default)
        elif not each.init and hasattr(kind, "__attrs_post_init__"):
            derived.add(each.name)
    # Older versions of attrs have no alias: the argument of `_x` is `x`.
    inputs = {a.name: getattr(a, "alias", None) or a.name.lstrip("_") for a in attributes}
    inputs = {name: given for name, given in inputs.items() if given != name}
    return Fields(
        tuple(each.name for each in attributes),
        defaults,
        {given: name for name, given in inputs.items()},
        inputs=inputs,
        late=frozenset(each.name for each in attributes if not each.init),
        derived=frozenset(derived),
        types={each.name: each.type for each in attributes if each.type is not None},
    )


def _of_model(fields: Mapping[str, Any], config: Mapping[str, Any], *, records: bool) -> Fields:
    defaults = {name: d for name, f in fields.items() if (d := _model_default(f)) is not None}
    aliases: dict[str, str] = {}
    paths: dict[str, tuple[Any, ...]] = {}
    inputs: dict[str, str] = {}
    by_alias = config.get("validate_by_alias", True) is not False
    for name, field in fields.items():
        places = list(_places(field.validation_alias)) if by_alias else []
        texts = [place for place in places if isinstance(place, str)]
        aliases |= {text: name for text in texts if text != name and text not in aliases}
        nested = [place for place in places if not isinstance(place, str)]
        if texts:
            inputs[name] = texts[0]
        if nested:
            paths[name] = nested[0]
    return Fields(
        tuple(fields),
        defaults,
        aliases,
        paths,
        {k: v for k, v in inputs.items() if v != k},
        records=records,
        forbids=config.get("extra") == "forbid",
    )


def _places(alias: Any) -> Iterator[Any]:
    """The names and paths of a validation alias, in the order in which pydantic tries them."""
    if isinstance(alias, str):
        yield alias
    elif (choices := getattr(alias, "choices", None)) is not None:
        for choice in choices:
            yield from _places(choice)
    elif (path := getattr(alias, "path", None)) is not None:
        yield path[0] if len(path) == 1 else tuple(path)


def _model_default(field: Any) -> Default | None:
    if field.is_required():
        return None
    if field.default_factory is not None:
        needs = "data" if getattr(field, "default_factory_takes_validated_data", None) else ""
        return Default(factory=field.default_factory, needs=needs)
    return Default(field.default, copies=True)


def maker(kind: Any) -> Callable[..., Any]:
    """Return the function that makes an object of a class from its keys' values, by field names."""
    known = fields_in(kind)
    if known is None or not (known.inputs or known.paths or known.late):
        return kind
    return cast("Any", functools.wraps(kind, updated=())(_Maker(kind, known)))


def check_makeable(name: str, known: Fields | None) -> None:
    """Refuse a class whose objects can't be made of its fields.

    Raises:
        SchemaError: the constructor needs an argument besides the fields.
    """
    if known is not None and known.missing:
        raise SchemaError(
            f"schema {name} has an InitVar without a default, {known.missing!r}: no key of the "
            "state has its value",
            do=f"give {known.missing!r} a default, or make it a field",
        )


def filled(make: Callable[..., Any] | None, defaults: Mapping[str, Default]) -> Callable[..., Any]:
    """Return a function that makes a node's view, with the state's defaults of absent keys.

    Args:
        make: makes the view from keyword arguments; None: it is a dict.
        defaults: of keys for which the node's own schema has none.
    """

    def build(**seen: Any) -> Any:
        for key, default in defaults.items():
            if key not in seen:
                seen[key] = default.make()
        return seen if make is None else make(**seen)

    return build if make is None else cast("Any", functools.wraps(make, updated=())(build))


class _Maker:
    """Makes objects of a class whose constructor doesn't take each field by its name."""

    def __init__(self, kind: Any, known: Fields) -> None:
        self._kind = kind
        self._inputs = known.inputs
        # A field with a name of its own is given by that.
        self._paths = {k: p for k, p in known.paths.items() if k not in known.inputs}
        self._late = known.late
        self._derived = known.derived

    def __call__(self, **values: Any) -> Any:
        given: dict[str, Any] = {}
        for name, value in values.items():
            if name in self._late:
                continue
            path = self._paths.get(name)
            if path is None:
                given[self._inputs.get(name, name)] = value
                continue
            # pydantic reads a place in a list from a dict with numbers as keys as well.
            *above, last = path
            inner = given
            for step in above:
                inner = inner.setdefault(step, {})
            inner[last] = value
        made = self._kind(**given)
        for name in self._late:
            if name in values:
                object.__setattr__(made, name, values[name])  # also where the class is frozen
        return made


def object_of(kind: Any, given: Mapping[str, Any]) -> Any:
    """Make an object of a class of a dict that came from outside, by aliases or names.

    A dict or a list in a field of another class becomes an object of that, as in JSON.

    Raises:
        Exception: what the class's constructor raises.
    """
    known = fields_in(kind)
    assert known is not None
    values: dict[str, Any] = by_name(known, given)
    if not hasattr(kind, "model_fields"):  # pydantic does it by itself
        nested = [name for name, value in values.items() if type(value) in (dict, list)]
        hints = class_annotations(kind) if nested else {}
        for name in nested:
            values[name] = _converted(values[name], hints.get(name, Any))
    return maker(kind)(**values)


def _converted(value: Any, hint: Any) -> Any:
    """Convert plain data to its type; the data itself if it doesn't fit, as constructors do."""
    try:
        if hasattr(hint, "model_validate"):
            return hint.model_validate(value)
        return msgspec.convert(value, hint)
    except Exception:  # noqa: BLE001 - types that msgspec doesn't know; the class may check it
        return value


def by_name(known: Fields, given: Mapping[Any, Any], *, outside: bool = True) -> dict[Any, Any]:
    """Return an update with the names of fields in place of their aliases.

    Args:
        outside: whether a key that is the alias of one field and the name of another is the
            alias, as for the class's constructor; else the name.
    """
    made: dict[Any, Any] = {}
    named: dict[Any, Any] = {}
    names = frozenset(known.names)
    roots = {path[0] for path in known.paths.values()} - names
    for key, value in given.items():
        field = known.aliases.get(key) if isinstance(key, str) else None
        if field is not None and (outside or key not in names):
            made.setdefault(field, value)
        elif key not in roots:
            named[key] = value
    for field, path in known.paths.items():
        if field not in made:
            value = _at(given, path)
            if value is not _NOTHING:
                made[field] = value
    return {**named, **made}


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        if isinstance(value, (str, bytes)):
            return _NOTHING
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _NOTHING
    return value


def written_by(thing: Any, folds: frozenset[str] = frozenset()) -> list[tuple[str, Any]] | None:
    """Read the fields that an object of a state's class writes; None if it is none.

    Of a pydantic model those that were set or changed in place. The other kinds don't know which
    of their fields were set: all are written, but those of `folds` that equal their default, since
    a reducer would fold the default once more. Fields that the class computes are not written.

    Args:
        folds: the keys whose writes are folded into their value.
    """
    if isinstance(thing, type):
        return None
    known = fields_in(type(thing))
    if known is None:
        return None
    if known.records:
        given: Any = thing.model_fields_set
        return [
            (name, value)
            for name, value in _values(thing, known)
            if name in given or _has_changed(value, known.defaults.get(name))
        ]
    return [
        (name, value)
        for name, value in _values(thing, known)
        if not (name in folds and name in known.defaults and known.defaults[name].is_same(value))
    ]


def all_of(thing: Any) -> list[tuple[str, Any]] | None:
    """Read all fields of an object of a state's class, but those that the class computes."""
    known = None if isinstance(thing, type) else fields_in(type(thing))
    return None if known is None else list(_values(thing, known))


def _values(thing: Any, known: Fields) -> Iterator[tuple[str, Any]]:
    for name in known.names:
        if name not in known.derived:
            value = getattr(thing, name, _NOTHING)
            if value is not _NOTHING:  # an attribute that was never set
                yield name, value
    # A key that the state doesn't have is reported where the update is taken.
    yield from (getattr(thing, "__pydantic_extra__", None) or {}).items()


def _has_changed(value: Any, default: Default | None) -> bool:
    """Whether a pydantic field that was never set has been changed in place.

    Only a mutable value can be; for others the default isn't made again to compare.
    """
    if value is None or isinstance(value, IMMUTABLE):
        return False
    if default is None or default.needs:
        return True
    try:
        return bool(value != default.make())
    except Exception:  # noqa: BLE001 - a strange factory, a strange `!=`
        return True

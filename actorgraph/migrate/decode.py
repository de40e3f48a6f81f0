"""Decode values and checkpoints that LangGraph's serializer encoded, without importing anything.

The bytes name classes and how to call them. Here a name is only looked up: among the types known
to this file, chat messages, and the types that the caller allows. Anything else is noted with its
path, and its thread is not moved.
"""

import dataclasses
import datetime as dt
import ipaddress
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import ormsgpack

from actorgraph.errors import SerializationError
from actorgraph.internals import MESSAGE_KINDS as KINDS
from actorgraph.internals import (
    MODEL,
    NAMED_TUPLE,
    OLD_MODEL,
    PATTERN,
    SLOTTED,
    CopyBudget,
    build_set,
    extension_of,
    library_type,
    number_of,
)
from actorgraph.migrate.sources import SourceCheckpoint
from actorgraph.migrate.task_matching import task_id_hash
from actorgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

_ONE_ARGUMENT = (0, 3)
_MODELS = (4, 5)
_SNAPSHOT = 7
_DERIVED = frozenset({"type", "example"})


def _interrupt(fields: Mapping[str, Any]) -> Interrupt:
    """Make a question. One of LangGraph before 0.6 has no id, but the namespace that makes it."""
    name, namespace = fields.get("id", ""), fields.get("ns")
    if not name and namespace:
        name = task_id_hash()("|".join(namespace).encode())
    return Interrupt(fields["value"], name, fields.get("response_schema"))


_KNOWN: dict[str, Callable[[Any], Any]] = {
    "uuid.UUID": lambda a: UUID(hex=a[0]),
    "decimal.Decimal": lambda a: Decimal(a[0]),
    "builtins.set": lambda a: build_set(a[0]),
    "builtins.frozenset": lambda a: frozenset(build_set(a[0])),
    "collections.deque": lambda a: deque(a[0]),
    "zoneinfo.ZoneInfo": lambda a: ZoneInfo(a[0]),
    "datetime.datetime": lambda a: dt.datetime.fromisoformat(a[0]),
    "datetime.timedelta": lambda a: dt.timedelta(*a),
    "datetime.date": lambda a: dt.date(*a),
    "datetime.timezone": lambda a: dt.timezone(*a),
    "datetime.time": lambda a: dt.time(**a),
    "langgraph.types.Send": lambda a: Send(*a),
    "langgraph.types.Interrupt": _interrupt,
    "langgraph.types.Overwrite": lambda a: Overwrite(a["value"]),
    "langgraph.types.TimeoutPolicy": lambda a: TimeoutPolicy(**a),
    "langgraph.types.Command": lambda a: Command(
        graph=a["graph"], update=a["update"], resume=a["resume"], goto=a["goto"]
    ),
}
for _kind in (
    *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
    *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
):
    _KNOWN[f"ipaddress.{_kind.__name__}"] = lambda a, kind=_kind: kind(a[0])
for _name in ("Path", "PosixPath"):
    for _module in ("pathlib", "pathlib._local"):
        _KNOWN[f"{_module}.{_name}"] = lambda a: Path(*a)
for _name in ("Send", "Interrupt", "Command"):  # where older versions had them
    _KNOWN[f"langgraph.constants.{_name}"] = _KNOWN[f"langgraph.types.{_name}"]


class Decoder:
    """Decodes values, and notes those that it can't decode.

    Args:
        types: the program's types that values may have, besides plain data.
        langchain: LangChain's module of messages; None decodes them as this library's messages.

    Attributes:
        unknown: "path: reason" of each value that could not be decoded; cleared by the caller.
    """

    def __init__(self, types: Iterable[type] = (), langchain: Any = None) -> None:
        self._types = {f"{kind.__module__}.{kind.__name__}": kind for kind in types}
        self._langchain = langchain
        self.unknown: list[str] = []
        self._copies = CopyBudget(0)

    def read(self, form: str | None, payload: bytes | None, path: str) -> Any:
        """Decode a form and bytes; returns None with a note if that fails.

        Args:
            path: what the value is, for the note.
        """
        data = bytes(payload or b"")
        self._copies = CopyBudget(len(data))
        try:
            match form:
                case None | "null" | "empty":
                    return None
                case "bytes":
                    return data
                case "bytearray":
                    return bytearray(data)
                case "msgpack":
                    return self._restore(_unpacked(data), path)
                case "json":
                    return self.revive(json.loads(data.decode()), path)
                case _:
                    return self._note(path, f"it has the form {form!r}")
        except RecursionError:
            return self._note(path, "it is nested too deeply")
        except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
            return self._note(path, f"it can't be decoded: {error}")

    def _restore(self, value: Any, path: str) -> Any:
        """Replace the extensions in a value by the objects that they represent."""
        if type(value) is list:
            items = cast("list[Any]", value)
            return [self._restore(item, f"{path}[{i}]") for i, item in enumerate(items)]
        if type(value) is dict:
            pairs = cast("dict[Any, Any]", value).items()
            return {key: self._restore(item, f"{path}[{key!r}]") for key, item in pairs}
        if type(value) is not _Raw:
            return value
        self._copies.spend(len(value.payload))
        inner = _unpacked(value.payload)
        if value.code == _SNAPSHOT:
            return self._restore(inner, path)
        if type(inner) is not list or len(cast("list[Any]", inner)) < 3:
            return self._note(path, f"it has the extension {value.code}")
        module, name, given = cast("list[Any]", inner)[:3]
        given = self._restore(given, path)
        if value.code in _ONE_ARGUMENT:
            given = [given]
        return self.build(f"{module}.{name}", given, path, model=value.code in _MODELS)

    def build(self, full: str, given: Any, path: str, *, model: bool = False) -> Any:
        """Build a value of a named type; returns None with a note if the type is unknown.

        Args:
            full: "module.Name" of the type.
            given: positional arguments as a list, or fields as a dict.
            model: whether `given` was dumped by pydantic.
        """
        if full in _KNOWN:
            return _KNOWN[full](given)
        if full.startswith("langchain_core.messages."):
            made = self._message(full.rpartition(".")[2], given, path)
            if made is not None:
                return made
        if full == "re.compile" and "re.Pattern" in self._types:
            return PATTERN.build(re.Pattern, given)
        kind = self._types.get(full)
        if kind is None and not full.startswith("langchain_core.messages."):
            kind = library_type(":".join(full.rsplit(".", 1)))
        if kind is None:
            return self._note(path, f"it has the type {full!r}")
        return _of_kind(kind, given, model=model)

    def _message(self, name: str, fields: Mapping[str, Any], path: str) -> Any:
        if self._langchain is not None:
            kind = getattr(self._langchain, name, None)
            known = isinstance(kind, type) and issubclass(kind, self._langchain.BaseMessage)
            return kind(**fields) if known and kind is not None else None
        kind = _OUR_MESSAGES.get(name)
        if kind is None:
            return None
        names = {field.name for field in dataclasses.fields(kind)}
        lost = [k for k, v in fields.items() if k not in names and v and k not in _DERIVED]
        if lost:
            self._note(path, f"a {name} has {', '.join(lost)}; install langchain-core to keep it")
        return kind(**{k: v for k, v in fields.items() if k in names})

    def revive(self, value: Any, path: str) -> Any:
        """Replace the constructors in a value of the older form, JSON, by their objects."""
        if isinstance(value, list):
            items = cast("list[Any]", value)
            return [self.revive(item, f"{path}[{i}]") for i, item in enumerate(items)]
        if not isinstance(value, dict):
            return value
        pairs = cast("dict[str, Any]", value)
        made = {key: self.revive(item, f"{path}[{key!r}]") for key, item in pairs.items()}
        if made.get("type") != "constructor" or made.get("lc") not in (1, 2):
            return made
        given = made.get("kwargs") or made.get("args") or []
        *module, name = made["id"]
        if made["lc"] == 1:  # LangChain's own form, whose ids aren't module paths
            module = ["langchain_core", "messages"]
        full = ".".join((*module, name))
        return self.build(full, given, path, model=isinstance(given, dict))

    def _note(self, path: str, reason: str) -> None:
        self.unknown.append(f"{path}: {reason}")


class _Raw(msgspec.Struct, frozen=True):
    """A msgpack extension whose content isn't decoded yet."""

    code: int
    payload: bytes


def _unpacked(data: bytes) -> Any:
    return ormsgpack.unpackb(data, ext_hook=_Raw, option=ormsgpack.OPT_NON_STR_KEYS)


_OUR_MESSAGES = {kind.__name__: kind for kind in KINDS}


def _of_kind(kind: Any, given: Any, *, model: bool) -> Any:
    extension = extension_of(kind)
    if extension is None:
        raise SerializationError(
            f"type {kind!r} can't be decoded",
            do="allow only dataclasses, models, enums and named tuples",
        )
    if extension is OLD_MODEL:
        return kind.construct(**given)
    if extension is SLOTTED:
        return kind(**given)
    if extension is MODEL or model:
        try:
            return kind.model_validate(given)
        except ValueError:
            return kind.model_construct(**given)
    if extension is NAMED_TUPLE and isinstance(given, dict):
        return kind(**given)
    return extension.build(kind, given) if isinstance(given, dict) else kind(*given)


def checkpoint_body(stored: SourceCheckpoint, decoder: Decoder) -> dict[str, Any]:
    """Decode a checkpoint's dict with its values.

    Returns: a dict without values if it can't be decoded; the decoder notes why.
    Raises:
        ValueError: it is not a checkpoint.
        Exception: any other, if parts of it have wrong types.
    """
    where = checkpoint_label(stored)
    if isinstance(stored.body, tuple):
        noted = len(decoder.unknown)
        found = decoder.read(stored.body[0], stored.body[1], where)
        return dict(_NOTHING) if len(decoder.unknown) > noted else _checked(found)
    inline = stored.body.get("channel_values") or {}
    blobs = {
        c: decoder.read(form, data, f"{where}: {c!r}") for c, (form, data) in stored.blobs.items()
    }
    return _checked({**stored.body, "channel_values": {**inline, **blobs}})


_NOTHING: Mapping[str, Any] = {
    "v": 4,
    "channel_values": {},
    "channel_versions": {},
    "versions_seen": {},
}


def _checked(body: Any) -> dict[str, Any]:
    """Check that a checkpoint has the parts that are read later.

    Raises: ValueError: a part is missing, or a version is not a number.
    """
    parts = [part for part in _NOTHING if not isinstance(body, dict) or part not in body]
    if parts:
        msg = f"it has no {', '.join(parts)}"
        raise ValueError(msg)
    found = cast("dict[str, Any]", body)
    for versions in (found["channel_versions"], *found["versions_seen"].values()):
        for version in versions.values():
            number_of(version)
    return found


def checkpoint_label(stored: SourceCheckpoint) -> str:
    """Name a checkpoint in notes and problems."""
    place = f" of {stored.namespace!r}" if stored.namespace else ""
    return f"checkpoint {stored.id}{place}"

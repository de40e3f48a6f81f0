"""Bytes that were made to do harm, and a watch over what decoding them does."""

import builtins
import contextlib
import importlib
import io
import json
import random
import sys
import threading
import time
import tracemalloc
import zipfile
import zlib
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import ormsgpack

from actorgraph import Codec
from actorgraph.codec.encryption import INFLATED_MAX, AesCipher
from actorgraph.codec.records import Record, decode_record, encode_record, frame, frames
from actorgraph.codec.serializers import EncryptedSerializer
from actorgraph.errors import ActorGraphError
from actorgraph.migrate.decode import Decoder
from tests.codec.shapes import CODEC

SECONDS_MAX = 1.0
# From Python 3.12 on the same attacks take up to twice as much.
MEMORY_MAX, MEMORY_RATIO = (64_000_000, 10) if sys.version_info < (3, 12) else (128_000_000, 20)
"""Decoding may take `MEMORY_MAX` and so many bytes for each that the record has, inflated."""
HARMLESS = frozenset({"object.__getattr__", "object.__setattr__", "sys._getframe", "builtins.id"})
"""Audit events that run nothing and touch nothing outside; every other one is seen."""
EXPECTED = (
    *(*zoneinfo.TZPATH, "tzdata", "import cryptography.exceptions", "import numpy._core."),
    "import difflib",
    # The C scanner of Python 3.12 finds its error so.
    "import json.decoder",
)
"""A time zone's own file; the module of AES-GCM's error; modules that numpy's C code is made of;
what an error's advice looks for near names with."""

_SEEN: list[str] = []
_WATCH: dict[str, Any] = {"thread": None, "installed": False}


PICKLES = [
    b"cposix\nsystem\np0\n(Vls\np1\ntp2\nRp3\n.",
    b"cposix\nsystem\nq\x00(X\x02\x00\x00\x00lsq\x01tq\x02Rq\x03.",
    b"\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00lsq\x01\x85q\x02Rq\x03.",
    b"\x80\x03cposix\nsystem\nq\x00X\x02\x00\x00\x00lsq\x01\x85q\x02Rq\x03.",
    (
        b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix"
        b"\x94\x8c\x06system\x94\x93\x94\x8c\x02ls\x94\x85\x94R\x94."
    ),
    (
        b"\x80\x05\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix"
        b"\x94\x8c\x06system\x94\x93\x94\x8c\x02ls\x94\x85\x94R\x94."
    ),
]
"""`os.system("ls")` in each protocol."""


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _WATCH["thread"] == threading.get_ident() and event not in HARMLESS:
        _note(f"{event} {args[0] if args else ''}")


def _note(what: str) -> None:
    if not any(name in what for name in EXPECTED):
        _SEEN.append(what)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Record imports, opened files, executed code and started processes of this thread.

    An import of a module that is there already raises no audit event, so `import` itself is
    watched: which modules are there depends on the tests that ran before.
    """
    if not _WATCH["installed"]:
        sys.addaudithook(_audit)
        _WATCH["installed"] = True
    _SEEN.clear()
    importing, by_name = builtins.__import__, importlib.import_module

    def imported(name: str, *args: Any, **options: Any) -> Any:
        if _WATCH["thread"] == threading.get_ident():
            _note(f"import {name}")
        return importing(name, *args, **options)

    def import_module(name: str, package: str | None = None) -> Any:
        if _WATCH["thread"] == threading.get_ident():
            _note(f"import {name}")
        return by_name(name, package)

    builtins.__import__, importlib.import_module = imported, import_module
    _WATCH["thread"] = threading.get_ident()
    try:
        yield _SEEN
    finally:
        _WATCH["thread"] = None
        builtins.__import__, importlib.import_module = importing, by_name


def decoders() -> dict[str, Callable[[bytes], Any]]:
    """Everything that makes values of stored bytes."""
    keyed = Codec(keys={"k": b"1" * 32}, reads_plain=True)
    return {
        "plain": Codec().decode,
        "types": CODEC.decode,
        "compressing": Codec(compress_above=1).decode,
        "encrypting": keyed.decode,
        "strict": Codec(keys={"k": b"1" * 32}).decode,
        "frames": lambda payload: [CODEC.decode(part) for part in frames(payload)],
        "record": lambda payload: decode_record(payload.decode("utf-8", "replace")),
        "count": CODEC.count,
        "serializer": EncryptedSerializer(AesCipher({"k": b"1" * 32}), reads_plain=True).decode,
        "langgraph": _read_langgraph,
    }


def _read_langgraph(payload: bytes) -> Any:
    """Decode as `actorgraph.migrate` does; it notes what it can't read."""
    decoder = Decoder()
    return [decoder.read(form, payload, "value") for form in ("msgpack", "json")]


def _zipped() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("bomb", b"\0" * 10_000_000)
    return made.getvalue()


def _nested(levels: int, leaf: bytes) -> bytes:
    payload = leaf
    for _ in range(levels):
        payload = ormsgpack.packb(ormsgpack.Ext(1, payload))
    return payload


def _ext(code: int, payload: bytes) -> bytes:
    return b"\xc9" + len(payload).to_bytes(4) + bytes([code]) + payload


def _layers(levels: int, size: int) -> bytes:
    """Tuples inside one another around many bytes, compressed to a few."""
    payload = b"\xc6" + size.to_bytes(4) + b"\0" * size
    for _ in range(levels):
        payload = _ext(1, b"\x91" + payload)
    return b"\xc1\x01" + zlib.compress(payload, 9)


def _json_layers(levels: int, size: int) -> bytes:
    text = b'{"$tuple":[' * levels + b'"' + b"x" * size + b'"' + b"]}" * levels
    return b"\xc1\x01" + zlib.compress(text, 9)


def crowded(count: int) -> dict[str, list[Any]]:
    """Keys that collide, of each type whose hashes can be chosen."""
    prime = sys.hash_info.modulus
    equal = [prime * (number + 1) for number in range(count)]
    return {
        "integers": equal,
        "negative": [-number for number in equal],
        "decimals": [Decimal(number) for number in equal],
        "tuples": [(number, 1) for number in equal],
    }


def tables(count: int) -> Iterator[tuple[str, bytes]]:
    """Sets and dicts of `crowded` keys."""
    pack = Codec().encode
    for name, keys in crowded(count).items():
        head, packed = b"\xdd" + len(keys).to_bytes(4), [pack(key) for key in keys]
        yield f"set of {name}", _ext(2, head + b"".join(packed))
        yield f"frozenset of {name}", _ext(3, head + b"".join(packed))
        yield f"dict of {name}", _ext(20, head + b"".join(b"\x92" + k + b"\xc0" for k in packed))


@cache
def corpus(codes: Iterable[int] = range(128)) -> dict[str, bytes]:
    """Attacks by name, made once.

    Args:
        codes: the extensions that are tried with each payload.
    """
    pickles = {f"pickle {p}": payload for p, payload in enumerate(PICKLES)}
    calls = ormsgpack.packb(["os:system", ["ls"]])
    number = ormsgpack.packb(2 * 10**9)
    found = dict(pickles)
    for code in codes:
        for name, payload in (
            *(("call", calls), ("none", b""), ("pickle", pickles["pickle 4"])),
            *(("number", number), ("numbers", ormsgpack.packb([2 * 10**9] * 2))),
        ):
            found[f"ext {code} {name}"] = ormsgpack.packb(ormsgpack.Ext(code, payload))
    for version in (1, 2):
        made = {"lc": version, "type": "constructor", "id": ["os", "system"], "args": ["ls"]}
        found[f"lc {version} json"] = json.dumps(made).encode()
        found[f"lc {version} msgpack"] = ormsgpack.packb(made)
    bomb = zlib.compress(b"\0" * 200_000_000, 9)
    found |= {
        "yaml": b"!!python/object/apply:os.system ['ls']",
        "python": b"__import__('os').system('ls')",
        "zlib bomb": b"\xc1\x01" + bomb,
        "zlib in zlib": b"\xc1\x01" + zlib.compress(b"\xc1\x01" + bomb),
        "zip": _zipped(),
        "zstd": b"\x28\xb5\x2f\xfd" + b"\xff" * 100,
        "envelope": b"\xc1\x02\xff",
        "deep lists": b"\x91" * 200_000,
        "deep maps": b"\x81\xa1k" * 100_000,
        "deep extensions": _nested(2_000, b"\x90"),
        "wide extensions": _nested(180, b"\xc6" + (200_000).to_bytes(4) + b"\0" * 200_000),
        "endless json": b'{"v":4,"values":' + b"[" * 100_000,
        "great numbers": b'{"v":4,"channel_versions":{"a":' + b"9" * 100_000 + b"}}",
    }
    endless = [ormsgpack.Ext(13, ormsgpack.packb("0x" + "f" * 40_000))] * 64
    found["endless shape"] = ormsgpack.packb(
        ormsgpack.Ext(18, ormsgpack.packb(["|u1", endless, "C", b""]))
    )
    for name, head in {"array": b"\xdd", "map": b"\xdf", "text": b"\xdb", "bytes": b"\xc6"}.items():
        found[f"claimed {name}"] = head + b"\xff\xff\xff\xff"
    for code in (2, 13, 15, 20):
        found[f"long {code}"] = ormsgpack.packb(
            ormsgpack.Ext(code, ormsgpack.packb("0x" + "f" * 10**6))
        )
    return found


def large(keys: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Attacks whose harm grows with the size: sets and dicts of `keys`, layers of `size` bytes."""
    yield from tables(keys)
    for levels in (12, 200):
        yield f"{levels} layers", _layers(levels, size)
        yield f"{levels} layers of JSON", _json_layers(levels, size)


SEEDS = [
    CODEC.encode({"a": [1, (2, "x"), {1: b"x"}], "b": {1.5, None}}),
    frame(CODEC.encode(["a", {"b": 1}])) * 3,
    Codec(compress_above=1).encode(["the same again"] * 50),
    Codec(keys={"k": b"1" * 32}).encode("text"),
    CODEC.encode([np.arange(3), np.zeros(2, [("a", "i1"), ("m", "f4", (2, 2))]), np.float32(1)]),
    encode_record(Record(graph="g", channel_versions={"a": 1}, lists={"a": [(1, 2)]})).encode(),
]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Records with changed, cut, doubled and inserted bytes."""
    chance = random.Random(seed)
    attacks = list(corpus().values())
    for _ in range(count):
        made = bytearray(chance.choice(SEEDS))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(made) + 1)
            kind = chance.randrange(4)
            if kind == 0 and made:
                made[at % len(made)] = chance.randrange(256)
            elif kind == 1:
                del made[at : at + chance.randint(1, 9)]
            elif kind == 2:
                made[at:at] = chance.choice(attacks)[: chance.randint(1, 40)]
            else:
                made[at:at] = made[: chance.randint(0, 20)]
        yield bytes(made)


def size_of(payload: bytes) -> int:
    """Bytes of a record, inflated if it is compressed."""
    if payload[:2] != b"\xc1\x01":
        return len(payload)
    with contextlib.suppress(zlib.error):
        return len(zlib.decompressobj().decompress(payload[2:], INFLATED_MAX))
    return len(payload)


def attack(
    name: str, payload: bytes, *, measured: bool = False, by: Collection[str] = ()
) -> list[str]:
    """Return the faults found when a payload went through every decoder; empty without any.

    Args:
        measured: whether the memory is measured too, which takes long.
        by: the decoders to use; none means all.
    """
    wrong: list[str] = []
    for decoder, decode in decoders_once().items():
        if by and decoder not in by:
            continue
        if measured:
            tracemalloc.start()
        began = time.thread_time()
        try:
            decode(payload)
        except ActorGraphError:
            pass
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            wrong.append(f"{name} {decoder}: {error!r}")
        took = time.thread_time() - began
        if measured:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > MEMORY_MAX + MEMORY_RATIO * size_of(payload):
                wrong.append(f"{name} {decoder}: {peak:,} bytes")
        if took > SECONDS_MAX:
            wrong.append(f"{name} {decoder}: {took:.1f} s")
    return wrong


_DECODERS: dict[str, Callable[[bytes], Any]] = {}


def decoders_once() -> dict[str, Callable[[bytes], Any]]:
    """`decoders()`, made before anything is watched."""
    if not _DECODERS:
        _DECODERS.update(decoders())
    return _DECODERS

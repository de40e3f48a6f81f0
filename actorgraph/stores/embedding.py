"""Search by text: which texts of a value are embedded, how, and which vectors are the nearest.

Paths       of texts in a value: `title`, `a.b[*].c`, `tags[-1]`, `{name,about.city}`, `$`
Embedding   by a function or an `Embeddings` object of the program, sync or async
Ranking     by the cosine with every vector, without an index: below some 50,000 vectors numpy is
            as fast as one; without numpy it is plain Python
"""

import inspect
import json
import math
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import anyio
import anyio.to_thread

from actorgraph.bridging import BRIDGE
from actorgraph.errors import MissingExtraError, RunningLoopError
from actorgraph.loops import in_event_loop, on_trio
from actorgraph.stores.errors import EmbeddingError, InvalidStoreOperationError
from actorgraph.stores.operations import IndexConfig

_CLOSING = {"[": "]", "{": "}"}


def tokenize_path(path: str) -> list[str]:
    """Split a path into steps: names, `[0]`, `[*]`, `{a,b}`, `*`."""
    steps, name, at = list[str](), "", 0
    while at < len(path):
        char = path[at]
        if char in ".[{":
            if name:
                steps.append(name)
            name = ""
        elif char not in _CLOSING:
            name += char
        if char in _CLOSING:
            end = _end(path, at)
            steps.append(path[at:end])
            at = end
        else:
            at += 1
    return [*steps, name] if name else steps


def get_text_at_path(obj: Any, path: str | list[str]) -> list[str]:
    """Return the texts at a path.

    Args:
        obj: a value.
        path: a path, or its steps from `tokenize_path`. `$` and "" are the whole value.
    Returns: text as it is, numbers and bools as Python writes them, lists and dicts as JSON with
        sorted keys; nothing for None and for missing fields.
    """
    if isinstance(obj, Mapping):
        obj = dict(obj)
    if not path or path == "$":
        return [_json(obj)]
    steps = tokenize_path(path) if isinstance(path, str) else path
    return [text for found in _walk(obj, steps) for text in _text(found)]


def _walk(obj: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield obj
        return
    for found in _step(obj, steps[0]):
        yield from _walk(found, steps[1:])


def _step(obj: Any, step: str) -> Iterator[Any]:
    """Yield the values to which one step leads."""
    if step.startswith("[") and step.endswith("]"):
        if isinstance(obj, list):
            yield from _elements(obj, step[1:-1])
    elif step.startswith("{") and step.endswith("}"):
        for field in step[1:-1].split(","):
            if names := tokenize_path(field.strip()):
                yield from _below(obj, names)
    elif step == "*":
        yield from obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ()
    elif isinstance(obj, dict) and step in obj:
        yield obj[step]


def _elements(elements: list[Any], index: str) -> Iterator[Any]:
    if index == "*":
        yield from elements
        return
    try:
        yield elements[int(index)]
    except (ValueError, IndexError):
        return


def _below(obj: Any, names: list[str]) -> Iterator[Any]:
    for name in names:
        if not isinstance(obj, dict) or name not in obj:
            return
        obj = obj[name]
    yield obj


def _text(found: Any) -> Iterator[str]:
    if isinstance(found, str | int | float):
        yield str(found)
    elif isinstance(found, list | dict):
        yield _json(found)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _end(path: str, start: int) -> int:
    """Return the index behind the bracket that closes the one at `start`, or the path's end."""
    opening, closing, depth = path[start], _CLOSING[path[start]], 0
    for at in range(start, len(path)):
        depth += (path[at] == opening) - (path[at] == closing)
        if depth == 0:
            return at + 1
    return len(path)


AddressT = TypeVar("AddressT")


def ranked(query: bytes, vectors: Iterable[tuple[AddressT, bytes]]) -> list[tuple[AddressT, float]]:
    """Return addresses with their best score, the best first; equal ones in the given order.

    Args:
        query: float32 numbers.
        vectors: (address, float32 numbers); vectors of another length than the query are left out.
    """
    fitting = [(address, vector) for address, vector in vectors if len(vector) == len(query)]
    best: dict[AddressT, float] = {}
    for (address, _), score in zip(fitting, _cosines(query, [v for _, v in fitting]), strict=True):
        best[address] = max(best.get(address, -1.0), min(score, 1.0))
    return sorted(best.items(), key=lambda entry: -entry[1])


def _cosines(query: bytes, vectors: list[bytes]) -> list[float]:
    if not vectors:
        return []
    try:
        import numpy as np
    except ImportError:
        return _plain_cosines(query, vectors)
    return _numpy_cosines(np, query, vectors)


def _numpy_cosines(np: Any, query: bytes, vectors: list[bytes]) -> list[float]:
    one = np.frombuffer(query, dtype=np.float32)
    rows = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(vectors), -1)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    products = rows @ one
    # The cosine with a vector of zeros is undefined: it scores 0.
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0).tolist()


def _plain_cosines(query: bytes, vectors: list[bytes]) -> list[float]:
    one = array("f", query)
    length = math.sqrt(sum(x * x for x in one))
    scores: list[float] = []
    for packed in vectors:
        row = array("f", packed)
        lengths = length * math.sqrt(sum(x * x for x in row))
        product = sum(a * b for a, b in zip(one, row, strict=True))
        scores.append(product / lengths if lengths > 0 else 0.0)
    return scores


Vectors = Sequence[Sequence[float]]
EmbeddingsFunc = Callable[[Sequence[str]], Vectors]
AEmbeddingsFunc = Callable[[Sequence[str]], Awaitable[Vectors]]


@runtime_checkable
class Embeddings(Protocol):
    """An object that embeds texts, with the interface of LangChain's `Embeddings`."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text to search for."""
        ...


class FunctionEmbeddings:
    """An embedding function as an `Embeddings` object.

    A sync function called from async code runs in a worker thread. An async one called from
    blocking code runs in an event loop of its own, if none is running.

    Args:
        function: returns one vector for each text; sync or async.
    """

    def __init__(self, function: EmbeddingsFunc | AEmbeddingsFunc) -> None:
        self._function = function
        self._waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method itself is looked at
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order.

        Raises:
            RunningLoopError: the function is async, and an event loop is running in this thread.
        """
        if not self._waits:
            return cast("Any", self._function)(texts)
        if in_event_loop():
            raise RunningLoopError(
                "an async embedding function can't be called by a blocking method in a running "
                "event loop",
                do="use the store's async methods: `await store.asearch(...)`",
            )
        return anyio.run(partial(self.aembed_documents, texts))

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text to search for."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` without blocking the event loop."""
        if self._waits:
            return await cast("Any", self._function)(texts)
        return await anyio.to_thread.run_sync(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` without blocking the event loop."""
        return (await self.aembed_documents([text]))[0]


def ensure_embeddings(embed: Any) -> Any:
    """Return an object with `embed_documents` and `embed_query`, and maybe their async versions.

    Args:
        embed: such an object, a function, or a name for LangChain's `init_embeddings`.
    Raises:
        InvalidStoreOperationError: it is none of these.
        MissingExtraError: it is a name, and LangChain is not installed.
    """
    if isinstance(embed, str):
        try:
            return BRIDGE.named_embeddings(embed)
        except ImportError as error:
            raise MissingExtraError(
                f"embeddings are named {embed!r}, and langchain is not installed",
                do="pip install langchain and the provider's package, or pass a function",
            ) from error
    if isinstance(embed, Embeddings):
        return embed
    if callable(embed):
        return FunctionEmbeddings(cast("EmbeddingsFunc", embed))
    raise InvalidStoreOperationError(
        "embed must be provided", do="pass a function from texts to vectors as index['embed']"
    )


class Embedder:
    """Embeds texts of items and queries, as a store's `index` says.

    Args:
        config: the store's `index`.
    Raises:
        InvalidStoreOperationError: `dims` is not a positive integer, or `embed` is invalid.
        MissingExtraError: `embed` is a name, and LangChain is not installed.
    """

    def __init__(self, config: IndexConfig) -> None:
        dims = config.get("dims")
        if type(dims) is not int or dims < 1:
            raise InvalidStoreOperationError(
                f"index['dims'] must be an integer >= 1, got {dims!r}",
                do="pass the length of the vectors",
            )
        self.dims: int = dims
        self.embeddings = ensure_embeddings(config.get("embed"))
        self.fields = [(path, steps_of(path)) for path in config.get("fields") or ["$"]]

    def embed(self, texts: list[str], queries: list[str]) -> tuple[list[bytes], list[bytes]]:
        """Return the vectors of texts to store, and of texts to search for, as float32 bytes."""
        documents = self.embeddings.embed_documents(texts) if texts else []
        found = [self.embeddings.embed_query(query) for query in queries]
        return self._packed(texts, documents), self._packed(queries, found)

    async def aembed(self, texts: list[str], queries: list[str]) -> tuple[list[bytes], list[bytes]]:
        """`embed` without blocking the event loop, whichever runs."""
        documents = await self._call("embed_documents", texts) if texts else []
        found = [await self._call("embed_query", query) for query in queries]
        return self._packed(texts, documents), self._packed(queries, found)

    async def _call(self, name: str, argument: Any) -> Any:
        """Call a method without blocking: the async one, or the blocking one in a thread.

        LangChain's async methods need asyncio, so on trio its blocking ones are called.
        """
        waiting = getattr(self.embeddings, f"a{name}", None)
        ours = isinstance(self.embeddings, FunctionEmbeddings)
        if waiting is not None and (ours or not on_trio()):
            return await waiting(argument)
        return await anyio.to_thread.run_sync(getattr(self.embeddings, name), argument)

    def _packed(self, texts: list[str], vectors: Any) -> list[bytes]:
        found = list(vectors)
        if len(found) != len(texts):
            raise EmbeddingError(
                f"the embedding function returned {len(found)} vectors for {len(texts)} texts",
                do="return one vector for each text, in order",
            )
        return [self._pack(vector) for vector in found]

    def _pack(self, vector: Any) -> bytes:
        try:
            packed = array("f", map(float, vector))
        except (TypeError, ValueError, OverflowError) as error:
            raise EmbeddingError(
                f"the embedding function returned an invalid vector: {error}",
                do="return lists of numbers",
            ) from error
        if len(packed) != self.dims:
            raise EmbeddingError(
                f"the embedding function returned a vector of {len(packed)} numbers, but "
                f"index['dims'] is {self.dims}",
                do="set `dims` to the length of the function's vectors",
            )
        return packed.tobytes()


def steps_of(path: str) -> str | list[str]:
    """Return the steps of a path; `$`, the whole value, stays as it is."""
    return path if path == "$" else tokenize_path(path)

"""Embedding of texts, by a function or an `Embeddings` object of the program."""

import inspect
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

import anyio
import anyio.to_thread

from actorgraph.errors import MissingExtraError, RunningLoopError
from actorgraph.loops import in_event_loop, on_trio
from actorgraph.stores.errors import EmbeddingError, InvalidStoreOperationError
from actorgraph.stores.ops import IndexConfig
from actorgraph.stores.paths import tokenize_path

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
            from langchain.embeddings import (  # pyright: ignore[reportMissingImports]
                init_embeddings,
            )
        except ImportError as error:
            raise MissingExtraError(
                f"embeddings are named {embed!r}, and langchain is not installed",
                do="pip install langchain and the provider's package, or pass a function",
            ) from error
        return init_embeddings(embed)
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

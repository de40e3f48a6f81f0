"""Session: the turns of a program, each stored when it ends, each executed once.

A program that is started again runs the same turns in the same order: stored ones return their
stored results and are not called; the first one that isn't stored continues from there. A turn
is the unit: what one did before it failed, it does again.

`StreamedTurn` is the stream of a turn's pieces. It is a class and not an async generator: a
generator that is left early is closed only when its event loop gets to it, and until then the
session would refuse its next turn.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

import anyio.to_thread

from actorgraph.api.savers.checkpoint_methods import CheckpointMethods
from actorgraph.errors import ConflictError, InvalidConfigError
from actorgraph.loops import in_thread, shielded
from actorgraph.runtime.broadcast import Closing
from actorgraph.sessions.saver import Checkpoint, CheckpointSaver, SessionSaver, as_json

T = TypeVar("T")
Turn = AbstractContextManager[dict[str, Any] | None]


class StreamedTurn(Closing, AsyncIterator[T], Generic[T]):
    """See `Session.astream`. Iterate it once; the turn starts with its first piece.

    Args:
        turn: enters the turn: yields its stored metadata, if any, and frees the session on exit.
        begin: makes the program's iterator.
        keep: stores all pieces, after the last one.
    """

    def __init__(
        self,
        turn: Turn,
        begin: Callable[[], AsyncIterator[T]],
        keep: Callable[[list[Any]], Awaitable[None]],
    ) -> None:
        self._turn = turn
        self._begin = begin
        self._keep = keep
        self._source: AsyncIterator[T] | None = None
        self._replayed: list[T] | None = None
        self._pieces: list[T] = []
        self._begun = self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next piece.

        Raises:
            StopAsyncIteration: after the last chunk; the turn is stored.
            ConflictError, SerializationError: see `Session.turn`.
        """
        if self._ended:
            raise StopAsyncIteration
        try:
            return await self._next()
        except BaseException as error:
            await self._leave(error)
            raise

    async def _next(self) -> T:
        if not self._begun:
            self._start()
        if self._replayed is not None:
            if self._replayed:
                return self._replayed.pop(0)
            raise StopAsyncIteration
        assert self._source is not None
        try:
            piece = await anext(self._source)
        except StopAsyncIteration:
            await self._close_source()
            await self._keep(self._pieces)
            raise
        self._pieces.append(piece)
        return piece

    def _start(self) -> None:
        stored = self._turn.__enter__()
        self._begun = True
        if stored is None:
            self._source = self._begin()
        else:
            self._replayed = list(stored["result"])

    async def aclose(self) -> None:
        """Leave the turn, which is then not stored, and close the program's generator."""
        await self._leave(None)

    async def _leave(self, error: BaseException | None) -> None:
        self._ended = True
        try:
            await self._close_source()
        finally:
            self._free(None if isinstance(error, StopAsyncIteration) else error)

    async def _close_source(self) -> None:
        # Closed here, in the task that iterates: the garbage collector would close it in another
        # task, where its cancel scopes don't work.
        source, self._source = self._source, None
        if isinstance(source, AsyncGenerator):
            await source.aclose()

    def _free(self, error: BaseException | None) -> None:
        """Free the session for its next turn, once."""
        if self._begun:
            self._begun = False
            trace = None if error is None else error.__traceback__
            self._turn.__exit__(None if error is None else type(error), error, trace)

    def __del__(self) -> None:
        self._free(None)


P = ParamSpec("P")
PAGE = 100
_PROCESS_SAVER = SessionSaver()
"""Holds sessions that have a thread id and no saver."""


def session(thread_id: str | None = None, saver: Any = None, *, replay: bool = True) -> "Session":
    """Make a session, to open with `with` or `async with`.

    Args:
        thread_id: its id; the same id resumes it. None: nothing is stored.
        saver: a saver of this library, or an object with `get`, `put`, `list` and `delete`.
            Default one of this process, whose sessions are lost with it.
        replay: whether to return the results of stored turns again, in order, from the first one.
            False: every turn is a new one, e.g. in a chat where each request is a turn.
    Raises:
        InvalidConfigError: the saver is invalid, or there is one without a thread id.
    """
    return Session(thread_id, saver, replay=replay)


class Session:
    """The turns of a program; see `session`. One turn at a time, in the opening task or thread.

    Attributes:
        thread_id: None for a session that stores nothing.
        state: the program's data, JSON values, stored with every turn. A turn that fails leaves
            it unchanged; a replayed turn sets it to what it was after that turn.
        checkpoint: of the last turn; None before the first.
        turns: the number of turns that have ended.
    """

    def __init__(self, thread_id: str | None, saver: Any, *, replay: bool) -> None:
        if thread_id is None and saver is not None:
            raise InvalidConfigError(
                "a session with a saver needs a thread_id", do="pass thread_id= too"
            )
        self.thread_id = thread_id
        self.state: dict[str, Any] = {}
        self.checkpoint: Checkpoint | None = None
        self.turns = 0
        self._saver = _saver_of(saver) if thread_id is not None else None
        self._replay = replay
        self._stored: list[Checkpoint] = []
        self._busy = False

    @property
    def durable(self) -> bool:
        """Whether turns survive the process."""
        return self._saver is not None and bool(getattr(self._saver, "durable", True))

    @property
    def waiting(self) -> int:
        """The number of stored turns that have not been replayed yet."""
        return len(self._stored)

    def __enter__(self) -> Self:
        """Read the stored session."""
        self._load_turns(_chain(self._saver, self.thread_id))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: each turn is stored when it ends."""

    async def __aenter__(self) -> Self:
        """Read the stored session, without blocking the event loop."""
        if isinstance(self._saver, SessionSaver):
            self._load_turns(await _achain(self._saver, self.thread_id))
        elif self._saver is not None:
            read = partial(_chain, self._saver, self.thread_id)
            self._load_turns(await anyio.to_thread.run_sync(read))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `__exit__`."""

    def turn(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function as the next turn, or return the stored result of that turn.

        Args:
            function: its name identifies the turn; it returns JSON values.
            args: of the function.
            kwargs: of the function.
        Returns: its result; tuples as lists, as in a replay.
        Raises:
            ConflictError: the stored turn has another name, another session has stored a turn, or
                a turn of this one is active.
            SerializationError: the result or the state isn't JSON; the turn is not stored.
        """
        with self._turn(function, streamed=False) as stored:
            if stored is not None:
                return cast("T", stored["result"])
            kept = self._record(function, function(*args, **kwargs), streamed=False)
            self._commit(self._put(*kept))
            return cast("T", kept[1]["result"])

    async def aturn(
        self, function: Callable[P, Awaitable[T] | T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Async version of `turn`; a sync function runs in a worker thread."""
        with self._turn(function, streamed=False) as stored:
            if stored is not None:
                return cast("T", stored["result"])
            if inspect.iscoroutinefunction(function):
                result = await function(*args, **kwargs)
            else:
                result: Any = await in_thread(partial(function, *args, **kwargs))
                if inspect.isawaitable(result):
                    result = await result
            kept = self._record(function, result, streamed=False)
            await shielded(partial(self._keep, kept))
            return cast("T", kept[1]["result"])

    def stream(
        self, function: Callable[P, Iterator[T]], *args: P.args, **kwargs: P.kwargs
    ) -> Iterator[T]:
        """Run a turn that yields its result in pieces; it is stored when the last one is read.

        A replay yields the same pieces. A turn whose reader leaves early is not stored.
        """
        with self._turn(function, streamed=True) as stored:
            if stored is not None:
                yield from stored["result"]
                return
            pieces: list[Any] = []
            source = function(*args, **kwargs)
            try:
                for piece in source:
                    pieces.append(piece)
                    yield piece
            finally:
                if isinstance(source, Generator):
                    source.close()
            self._commit(self._put(*self._record(function, pieces, streamed=True)))

    def astream(
        self, function: Callable[P, AsyncIterator[T]], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[T]:
        """Async version of `stream`, for an async generator function.

        Returns: an iterator that may be left at any time; the session can then start another
            turn. `contextlib.aclosing` of it also waits until the generator is closed.
        """
        turn = self._turn(function, streamed=True)

        async def keep(pieces: list[Any]) -> None:
            await shielded(partial(self._keep, self._record(function, pieces, streamed=True)))

        return StreamedTurn(turn, lambda: function(*args, **kwargs), keep)

    def _load_turns(self, chain: list[Checkpoint]) -> None:
        """Set the session to its stored turns, the oldest first."""
        self.state, self.checkpoint, self.turns = {}, None, 0
        self._stored = chain
        if not self._replay and chain:
            self._stored, self.turns, self.checkpoint = [], len(chain), chain[-1]
            self.state = deepcopy(chain[-1].state)

    @contextmanager
    def _turn(self, function: Any, *, streamed: bool) -> Generator[dict[str, Any] | None]:
        """Run the body as one turn; yields the metadata of the stored turn, or None for a new one.

        On an error the state is restored to what it was before the turn.
        """
        if self._busy:
            raise ConflictError(
                f"a turn of session {self.thread_id!r} is still active",
                do="wait for its end, or read its stream to the end",
            )
        before, turns, self._busy = deepcopy(self.state), self.turns, True
        point = self._stored[0] if self._stored else None
        try:
            if point is None:
                yield None
                return
            self._check(point, function, streamed=streamed)
            del self._stored[0]
            self._commit(point)
            before = deepcopy(point.state)
            yield deepcopy(point.metadata)
        finally:
            # A turn that was cancelled while it was being stored has been counted: its state
            # stays.
            if point is not None or self.turns == turns:
                self.state = before
            self._busy = False

    def _check(self, point: Checkpoint, function: Any, *, streamed: bool) -> None:
        stored, asked = point.metadata, _name_of(function)
        if (stored.get("turn"), bool(stored.get("streamed"))) != (asked, streamed):
            raise ConflictError(
                f"turn {self.turns + 1} of session {self.thread_id!r} is stored as "
                f"{stored.get('turn')!r}, but {asked!r} was called",
                do="run the turns in the order in which they were stored, or use another id",
            )

    def _record(
        self, function: Any, result: Any, *, streamed: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the stored values of a turn: the state, and the metadata with its result."""
        about = {"turn": _name_of(function), "result": result, "streamed": streamed}
        return as_json("state", self.state), as_json("turn", about)

    def _put(self, state: dict[str, Any], metadata: dict[str, Any]) -> Checkpoint | None:
        if self._saver is None or self.thread_id is None:
            return None
        self._check_last(self._saver.get(self.thread_id))
        parent = self.checkpoint.id if self.checkpoint else None
        return self._saver.put(self.thread_id, state, parent_id=parent, metadata=metadata)

    async def _keep(self, kept: tuple[dict[str, Any], dict[str, Any]]) -> None:
        """Store a finished turn. Shielded by the callers: once stored it must also be counted."""
        self._commit(await self._aput(*kept))

    async def _aput(self, state: dict[str, Any], metadata: dict[str, Any]) -> Checkpoint | None:
        if not isinstance(self._saver, SessionSaver) or self.thread_id is None:
            return await anyio.to_thread.run_sync(self._put, state, metadata)
        self._check_last(await self._saver.aget(self.thread_id))
        parent = self.checkpoint.id if self.checkpoint else None
        return await self._saver.aput(self.thread_id, state, parent_id=parent, metadata=metadata)

    def _check_last(self, last: Checkpoint | None) -> None:
        mine = self.checkpoint.id if self.checkpoint else None
        if (last.id if last else None) != mine:
            raise ConflictError(
                f"another session of {self.thread_id!r} has stored a turn; this one was not stored",
                do="open the session again, and use one at a time",
            )

    def _commit(self, point: Checkpoint | None) -> None:
        self.checkpoint = point or self.checkpoint
        self.turns += 1


def _saver_of(saver: Any) -> CheckpointSaver:
    if saver is None:
        return _PROCESS_SAVER
    if not isinstance(saver, type):
        if isinstance(saver, CheckpointMethods) or hasattr(saver, "aget_tuple"):
            return SessionSaver(saver)
        if isinstance(saver, CheckpointSaver):
            return saver
    raise InvalidConfigError(
        f"saver must be a saver object, got {saver!r}",
        do="pass SqliteSaver(path), or an object with get, put, list, delete",
    )


def _chain(saver: CheckpointSaver | None, thread_id: str | None) -> list[Checkpoint]:
    """Return the last checkpoint and its ancestors, the oldest first."""
    if saver is None or thread_id is None:
        return []
    chain: list[Checkpoint] = []
    page = saver.list(thread_id, limit=PAGE)
    while page:
        chain = _append_ancestors(chain, page)
        page = saver.list(thread_id, before=page[-1].id, limit=PAGE)
    return chain[::-1]


async def _achain(saver: SessionSaver, thread_id: str | None) -> list[Checkpoint]:
    if thread_id is None:
        return []
    chain: list[Checkpoint] = []
    page = await saver.alist(thread_id, limit=PAGE)
    while page:
        chain = _append_ancestors(chain, page)
        page = await saver.alist(thread_id, before=page[-1].id, limit=PAGE)
    return chain[::-1]


def _append_ancestors(chain: list[Checkpoint], page: list[Checkpoint]) -> list[Checkpoint]:
    """Append the ancestors in an older page to a chain, which is newest first."""
    for point in page:
        if not chain or chain[-1].parent_id == point.id:
            chain.append(point)
    return chain


def _name_of(function: Any) -> str:
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__)

"""Acceptance of answers: they are checked before the run that brings them is accepted.

Two callers may answer a question at once. The second one is refused while the first is on its way
in this process, while a run that brings an answer to it is open in any process, and once the
answer is stored. If two processes accept at the same moment, the run that comes second fails.
"""

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, cast

from actorgraph.api.graph.checked_answers import refusal_in
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.run_handle import Run
from actorgraph.superstep.answers import check_answers, check_resume, not_waiting
from actorgraph.values.commands import Command
from actorgraph.values.ids import is_interrupt_id

_PLACES = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")


class OpenRuns(Protocol):
    """Reads the open runs of a thread."""

    async def __call__(self, thread_id: str) -> Iterable[Run]:
        """Return them."""
        ...


class Answering:
    """The answers that a system is accepting.

    Args:
        open_runs: reads the open runs of a thread.
    """

    def __init__(self, open_runs: OpenRuns) -> None:
        self._open_runs = open_runs
        self._coming: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def accepting(
        self,
        graph: CompiledStateGraph,
        config: Mapping[str, Any],
        answers: Mapping[str, Any],
    ) -> AsyncGenerator[None]:
        """Check answers; the body accepts the run that brings them.

        Args:
            config: with the thread's id.
            answers: interrupt id -> answer.
        Raises:
            UnknownInterruptError, AlreadyResumedError, InvalidResumeError: see `check_answers`.
        """
        thread_id = str(config["configurable"]["thread_id"])
        with self.coming(thread_id, answers):
            # First the runs: the answer of one that ends meanwhile is in the state.
            answered = await self._answered(thread_id)
            state = await graph.aget_state(dict(config))
            asked = [question for question in state.interrupts if question.id not in answered]
            check_answers(answers, asked, thread_id, refusal_in(graph.plan, shown=True))
            yield

    @contextmanager
    def coming(self, thread_id: str, answers: Iterable[str]) -> Generator[None]:
        """Let no other answer to some questions be accepted here while the body accepts one.

        Args:
            answers: the ids of the questions.
        Raises:
            AlreadyResumedError: another one is being accepted.
        """
        own = {(thread_id, identifier) for identifier in answers}
        taken = sorted(identifier for _, identifier in own & self._coming)
        if taken:
            raise not_waiting(thread_id, taken)
        self._coming |= own
        try:
            yield
        finally:
            self._coming -= own

    async def check(
        self, graph: CompiledStateGraph, config: Mapping[str, Any], resume: Any
    ) -> None:
        """Check the answer of a Command, if it is for what the thread asks now.

        Another open run of the thread may ask something else, an older checkpoint has asked
        before: then the run decides.

        Raises:
            UnknownInterruptError, AlreadyResumedError, InvalidResumeError: see `check_resume`.
        """
        place: Mapping[str, Any] = config["configurable"]
        thread_id = str(place["thread_id"])
        if any(place.get(key) for key in _PLACES) or list(await self._open_runs(thread_id)):
            return
        state = await graph.aget_state(dict(config))
        if state.created_at is not None:  # else the run says that the thread is unknown
            refusal, waits = refusal_in(graph.plan, shown=False), bool(state.next)
            check_resume(resume, state.interrupts, thread_id, refusal, waits=waits)

    async def _answered(self, thread_id: str) -> set[str]:
        """The questions that open runs of a thread answer."""
        found: set[str] = set()
        for run in await self._open_runs(thread_id):
            given = (await run.arguments()).input
            resume = cast("Command[Any]", given).resume if isinstance(given, Command) else None
            if isinstance(resume, dict):
                found.update(filter(is_interrupt_id, cast("dict[str, Any]", resume)))
        return found

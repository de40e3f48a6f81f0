"""What code inside a node can ask for: its config, a stream writer, an interrupt's answer.

Each task runs in its own copy of the caller's context with `CURRENT` set, and so do the worker
threads and the tasks that the node starts.
"""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from actorgraph.errors import GraphDrained, GraphInterrupt, OutsideRunError
from actorgraph.runtime.handle import Runtime
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.live import Writer
from actorgraph.superstep.calls import shown_path
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import interrupt_id, is_interrupt_id
from actorgraph.values.run import Task, Write

if TYPE_CHECKING:
    from actorgraph.runtime.futures import TaskFuture
    from actorgraph.runtime.messages import MessageTap


class TaskScope:
    """One task's surroundings.

    Attributes:
        answers: the resume values that it has got, in the order of its questions.
        lineage: what the graphs that it runs take from its run.
        attempt: counts its attempts from 1.
        caller: the task that called it; None unless it is a `@task` function's.
        calls, has_called, failed_calls: the calls it has made itself; whether it, or a part of
            it, has made any; those that failed.
        routed: answers to questions asked below the task, by interrupt id.
        bare: answers that the caller gave to whoever asks first; shared by the run's tasks.
        raised: the questions that it, or a graph that it ran, asked in vain.
        pushed: writes that it makes besides those that it returns.
        took_bare: whether one of those answers was used, here or below.
        messages: takes messages that the task streams; None where nobody reads them.
        error: what an error handler handles; previous: the thread's last saved return;
            heartbeat: puts off the idle timeout; first_attempt_time: seconds since 1970. Each
            is set only where there is one.
        runtime: set once somebody has asked for it.
        graphs, stride: the number of the graph that it runs next, and the step to the one after.
        key, whole: of a part of a task: what tells its questions apart, and the task's own scope.
        drained: why a graph that it ran has stopped before its end.
        cached: whether its writes come out of a cache. made: the node's own writes, kept for
            one; set only where the node has a cache policy.
        cancelled: set when the task was abandoned; a sync node in its thread may look.
        progress: to be called at each sign of progress; None where nobody waits for any.
        over: whether this attempt is over, and nothing may be started or written in its name.
    """

    # Most tasks need none of these; each is set on the task that does.
    asked: int = 0
    attempt: int = 1
    cached: bool = False
    caller: "TaskScope | None" = None
    calls: int = 0
    cancelled: bool = False
    drained: "GraphDrained | None" = None
    failed_calls: "tuple[TaskFuture[Any], ...]" = ()
    graphs: int = 0
    has_called: bool = False
    key: str = ""
    messages: "MessageTap | None" = None
    over: bool = False
    stride: int = 1
    took_bare: bool = False
    whole: "TaskScope | None" = None
    error: Any
    first_attempt_time: float
    made: list[Write]
    heartbeat: Callable[[], None]
    previous: Any
    runtime: Runtime[Any]

    def __init__(
        self,
        task: Task,
        config: dict[str, Any],
        write: Writer,
        bare: list[Any],
        lineage: Lineage,
    ) -> None:
        self.task = task
        self.lineage = lineage
        self._config = config
        self.write = write
        self.answers = list(task.answers)
        self.routed = {**lineage.routed, **task.routed} if lineage.routed else task.routed
        self.bare = bare
        self.raised: list[Interrupt] = []
        self.pushed: list[Write] = []
        self.progress: Callable[[], None] | None = lineage.progress

    def next_call(self) -> int:
        """The number, from 0, of the `@task` function that it calls next."""
        whole = self.whole or self
        if whole.over:
            raise OutsideRunError(
                f"{self.task.name!r} called a task after its attempt was over",
                do="end what a node starts before the node returns or its timeout ends it",
            )
        if self.progress is not None:
            self.progress()
        whole.has_called = True
        self.calls += 1
        return self.calls - 1

    def next_graph(self) -> int:
        """The number, from 0, of the graph that it runs next."""
        calls = self.lineage.calls
        if (self.whole or self).over or (calls is not None and calls.closed):
            raise OutsideRunError(
                f"node {self.task.name!r} started a graph after its attempt was over",
                do="end what a node starts before the node returns or its timeout ends it",
            )
        if self.progress is not None:
            self.progress()
        self.graphs += self.stride
        return self.graphs - self.stride

    def apart(self, keys: Sequence[str]) -> list["TaskScope"]:
        """The same task, for each of several parts that run at once."""
        return [self._part(key, place, len(keys)) for place, key in enumerate(keys)]

    def _part(self, key: str, place: int, count: int) -> "TaskScope":
        """One of the parts, which ask and run graphs of their own accord.

        Questions of parts are told apart by `key`, not by their order, which may differ when
        the task runs again. Answers to them stand by id, as those of nested runs do. Graphs of
        parts have numbers of their own: of two parts one takes the even ones. What the parts
        have asked in vain becomes the task's with `join`.
        """
        part = copy(self)  # "#": an id with "|n" is that of the task's own n-th question
        part.key, part.answers, part.asked, part.bare = f"#{key}", [], 0, []
        part.whole, part.raised = self, []
        part.graphs, part.stride = self.graphs + place * self.stride, self.stride * count
        return part

    def join(self, parts: Iterable["TaskScope"]) -> None:
        """Take over the questions of parts that have ended, in the order of the parts."""
        for part in parts:
            self.raised += part.raised
            self.graphs = max(self.graphs, part.graphs - part.stride + self.stride)
            self.took_bare = self.took_bare or part.took_bare

    @property
    def base_config(self) -> dict[str, Any]:
        """The run's config, without the task's own place."""
        return self._config

    @property
    def config(self) -> dict[str, Any]:
        """The caller's config with the task's own namespace, and its place in the metadata.

        Without `run_id` and `run_name`: those are the run's own, not for what the task calls.
        """
        task, config = self.task, {k: v for k, v in self._config.items() if k not in _RUNS_OWN}
        own = {"checkpoint_ns": task.namespace, "langgraph_task_id": task.id}
        place = {**(config.get("configurable") or {}), **own}
        metadata = {**(config.get("metadata") or {}), **place_of(task, self.lineage.step())}
        return {**config, "configurable": place, "metadata": metadata}

    def override(self, config: dict[str, Any]) -> None:
        """Give the task another config; its place in it stays."""
        self._config = config

    def ask(self, value: Any, schema: dict[str, Any] | None = None) -> Any:
        """The answer to the task's next question, or the end of this attempt.

        Args:
            schema: the JSON schema of the answer, for those who are asked.
        """
        index = self.asked
        self.asked += 1
        if index < len(self.answers):
            return self.answers[index]
        identifier = interrupt_id(self.task.namespace + self.key, index)
        if identifier in self.routed:
            self.answers.append(self.routed[identifier])
            return self.answers[index]
        if self.bare:
            try:
                self.answers.append(self.bare.pop())
            except IndexError:  # another task's thread was faster
                pass
            else:
                self._took()
                return self.answers[index]
        question = Interrupt(value, identifier, schema)
        self.raised.append(question)
        raise GraphInterrupt((question,))

    def ask_unnamed(self, error: BaseException) -> None:
        """Take over the questions that a node has raised by itself: they have no id yet."""
        if isinstance(error, BaseExceptionGroup):
            for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                self.ask_unnamed(part)
        elif isinstance(error, GraphInterrupt):
            for question in error.interrupts:
                if not is_interrupt_id(question.id):
                    index = max(self.asked, len(self.answers))
                    self.asked = index + 1
                    identifier = interrupt_id(self.task.namespace + self.key, index)
                    self.raised.append(replace(question, id=identifier))

    def _took(self) -> None:
        """Note, here and in the tasks above, that an answer given to nobody has been used."""
        scope: TaskScope | None = self
        while scope is not None:
            scope.took_bare = True
            scope = scope.caller or scope.lineage.above


_RUNS_OWN = ("run_id", "run_name")


def place_of(task: Task, step: int) -> dict[str, Any]:
    """Where in its run a task stands, under LangGraph's names."""
    return {
        "langgraph_step": step,
        "langgraph_node": task.name,
        "langgraph_triggers": task.triggers,
        "langgraph_path": shown_path(task.path),
        "langgraph_checkpoint_ns": task.namespace,
    }


CURRENT: ContextVar[TaskScope] = ContextVar("actorgraph_task")


def current(what: str) -> TaskScope:
    """The running task.

    Raises:
        OutsideRunError: `what` was not called in a node.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise OutsideRunError(
            f"{what} was called outside of a node",
            do="call it in a node, or in a function that a node calls",
        ) from None


def get_config() -> dict[str, Any]:
    """The config of the running task: the caller's, with the task's namespace.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_config()").config


def get_stream_writer() -> Writer:
    """A function that sends its argument to the readers of `stream_mode="custom"`.

    A node that may be faster than its reader uses `await writer.asend(chunk)`.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_stream_writer()").write

"""TaskScope: the state of one task while it runs, and `get_config()`, `get_stream_writer()`.

Each task runs in its own copy of the caller's context with `CURRENT` set, and so do the worker
threads and the tasks that the node starts.
"""

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from typing import Any, cast

from actorgraph.errors import GraphDrained, GraphInterrupt, OutsideRunError
from actorgraph.runtime.futures import TaskFuture
from actorgraph.runtime.handle import Runtime
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.live import MessageTap, Writer
from actorgraph.superstep.calls import shown_path
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import interrupt_id, is_interrupt_id
from actorgraph.values.run import Task, Write


class TaskScope:
    """The state of one attempt of one task.

    Attributes:
        task: the task.
        lineage: its run, as subgraphs of the task see it.
        write: sends custom chunks.
        attempt: counts its attempts from 1.
        first_attempt_time: seconds since 1970; set when it is first needed.
        over: whether this attempt is over: nothing may be started or written for it any more.
        cancelled: whether the task was abandoned; a sync node in its thread may look.

        answers: the resume values that it has, in the order of its questions.
        asked: number of its questions so far.
        routed: answers to questions of its own and of its subgraphs, by interrupt id.
        bare: answers given without an interrupt id, for the first question asked; shared by the
            run's tasks.
        took_bare: whether it, or a run below it, has used one of those.
        raised: unanswered questions of its own and of its subgraphs.

        caller: the task that called it; None unless it runs a `@task` function.
        calls: number of `@task` calls that it has made itself.
        has_called: whether it, or a part of it, has made any.
        failed_calls: futures of its calls that failed.
        graphs: number of the subgraph that it runs next.
        stride: difference to the number of the one after.
        drained: why a subgraph of it has stopped before its end.
        key: of a part of a task: distinguishes its questions from those of other parts.
        whole: of a part of a task: the scope of the task.

        pushed: writes that it makes besides those that it returns.
        made: the node's own writes, for the cache; set only if the node has a cache policy.
        cached: whether its writes come from a cache.
        messages: sends the messages that the task streams; None if they aren't read.
        progress: called at each sign of progress; None without an idle timeout.
        heartbeat: postpones the idle timeout; set only if there is one.
        error: the error that an error handler handles; set only for one.
        previous: the return value that the thread's last run saved; set only if there is one.
        runtime: the node's `Runtime`; set when it is first needed.
    """

    # Class attributes, because most tasks need none of these: making a scope stays cheap.
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
        """Take the number, from 0, of the next `@task` call.

        Raises:
            OutsideRunError: the attempt is over.
        """
        whole = self.whole or self
        if whole.over:
            raise OutsideRunError(
                f"{self.task.name!r} called a task after its attempt had ended",
                do="end what a node starts before the node returns or its timeout ends it",
            )
        if self.progress is not None:
            self.progress()
        whole.has_called = True
        self.calls += 1
        return self.calls - 1

    def next_graph(self) -> int:
        """Take the number, from 0, of the next subgraph that it runs.

        Raises:
            OutsideRunError: the attempt is over, or the run has left.
        """
        calls = self.lineage.calls
        if (self.whole or self).over or (calls is not None and calls.closed):
            raise OutsideRunError(
                f"node {self.task.name!r} started a graph after its attempt had ended",
                do="end what a node starts before the node returns or its timeout ends it",
            )
        if self.progress is not None:
            self.progress()
        self.graphs += self.stride
        return self.graphs - self.stride

    def split(self, keys: Sequence[str]) -> list["TaskScope"]:
        """Scopes for parts of the task that run concurrently, one per key; see `join`."""
        return [self._part(key, place, len(keys)) for place, key in enumerate(keys)]

    def _part(self, key: str, place: int, count: int) -> "TaskScope":
        """The scope of one part, which asks questions and runs subgraphs independently.

        Questions of parts are distinguished by `key`, not by their order, which may differ when
        the task runs again. Their answers are found by interrupt id, as those of subgraphs are.
        Subgraphs of parts have separate numbers: of two parts one takes the even ones.
        """
        part = copy(self)
        # "#" keeps the ids apart from those of the task's own questions, which contain "|n".
        part.key, part.answers, part.asked, part.bare = f"#{key}", [], 0, []
        part.whole, part.raised = self, []
        part.graphs, part.stride = self.graphs + place * self.stride, self.stride * count
        return part

    def join(self, parts: Iterable["TaskScope"]) -> None:
        """Add the unanswered questions of parts that have ended, in the order of the parts."""
        for part in parts:
            self.raised += part.raised
            self.graphs = max(self.graphs, part.graphs - part.stride + self.stride)
            self.took_bare = self.took_bare or part.took_bare

    @property
    def base_config(self) -> dict[str, Any]:
        """The run's config, without the task's namespace and id."""
        return self._config

    @property
    def config(self) -> dict[str, Any]:
        """The caller's config with the task's namespace and id, and its place in the metadata.

        Without `run_id` and `run_name`: they are the run's, not for calls that the task makes.
        """
        task, config = self.task, {k: v for k, v in self._config.items() if k not in _RUN_KEYS}
        own = {"checkpoint_ns": task.namespace, "langgraph_task_id": task.id}
        place = {**(config.get("configurable") or {}), **own}
        metadata = {**(config.get("metadata") or {}), **task_metadata(task, self.lineage.step())}
        return {**config, "configurable": place, "metadata": metadata}

    def override(self, config: dict[str, Any]) -> None:
        """Replace the run's config for this task; its namespace and id are still added."""
        self._config = config

    def ask(self, value: Any, schema: dict[str, Any] | None = None) -> Any:
        """Answer the task's next question, or end this attempt.

        Args:
            value: the question.
            schema: the JSON schema of the answer, shown with the question.
        Returns: the answer.
        Raises:
            GraphInterrupt: there is none yet.
        """
        index = self.asked
        self.asked += 1
        if index < len(self.answers):
            return self.answers[index]
        # An answer by id before one without: that was meant for this very question.
        identifier = interrupt_id(self.task.namespace + self.key, index)
        if identifier in self.routed:
            self.answers.append(self.routed[identifier])
            return self.answers[index]
        if self.bare:
            try:
                self.answers.append(self.bare.pop())
            except IndexError:  # another task's thread has taken it since the check
                pass
            else:
                self._note_bare_answer()
                return self.answers[index]
        question = Interrupt(value, identifier, schema)
        self.raised.append(question)
        raise GraphInterrupt((question,))

    def adopt_questions(self, error: BaseException) -> None:
        """Add the questions of a GraphInterrupt that the node raised itself: they have no id."""
        if isinstance(error, BaseExceptionGroup):
            for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                self.adopt_questions(part)
        elif isinstance(error, GraphInterrupt):
            for question in error.interrupts:
                if not is_interrupt_id(question.id):
                    index = max(self.asked, len(self.answers))
                    self.asked = index + 1
                    identifier = interrupt_id(self.task.namespace + self.key, index)
                    self.raised.append(replace(question, id=identifier))

    def _note_bare_answer(self) -> None:
        """Note in this task and those above that an answer without an id has been used."""
        scope: TaskScope | None = self
        while scope is not None:
            scope.took_bare = True
            scope = scope.caller or scope.lineage.above


_RUN_KEYS = ("run_id", "run_name")


def task_metadata(task: Task, step: int) -> dict[str, Any]:
    """A task's place in its run, under LangGraph's names."""
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

    Args:
        what: the function that needs it, for the error.
    Raises:
        OutsideRunError: not called in a node.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise OutsideRunError(
            f"{what} was called outside of a node",
            do="call it in a node, or in a function that a node calls",
        ) from None


def get_config() -> dict[str, Any]:
    """Get the config of the running task: the caller's, with the task's namespace.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_config()").config


def get_stream_writer() -> Writer:
    """Get a function that sends its argument to the readers of `stream_mode="custom"`.

    A node that may be faster than its reader uses `await writer.asend(chunk)`.

    Raises:
        OutsideRunError: not called in a node.
    """
    return current("get_stream_writer()").write

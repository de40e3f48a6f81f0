"""A run driven by hand whose tasks call `@task` functions: see `script`."""

from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import CALL, PUSH, RETURN
from actorgraph.values.ids import interrupt_id, task_id
from actorgraph.values.policies import Durability
from actorgraph.values.run import (
    AnswerCall,
    Effect,
    Task,
    TaskCalled,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
    path_key,
)
from tests.superstep.script import Script, graph, idle, only


class State(TypedDict):
    log: Annotated[list[str], add]


SYNC, ASYNC, EXIT = Durability


class Program(Script):
    """A run whose tasks call functions. `answers` are the outcomes handed to callers, by id."""

    def __init__(self, *names: str, mode: Durability = SYNC, plan: Any = None, **options: Any):
        edges = [("__start__", name) for name in names]
        made = plan or graph(State, dict.fromkeys(names, idle), edges)
        super().__init__(made, mode, **options)
        self.answers: dict[str, AnswerCall] = {}
        self.made: dict[str, int] = {}

    def begun(self) -> "Program":
        """Give it an input; its tasks run."""
        self.begin({"log": []})
        self.saved()
        return self

    def call(self, caller: Task, name: str, place: int | None = None) -> tuple[Task, list[Effect]]:
        """A running task calls a function: the task that this makes, and the effects."""
        number = self.made.get(caller.id, 0) if place is None else place
        self.made[caller.id] = number + 1
        path = (PUSH, *caller.path, number, name, CALL)
        identifier = task_id(self.state.checkpoint, "", caller.id, path_key(path))
        task = Task(identifier, name, path, (PUSH,), ((), {}), within=caller.namespace)
        return task, self.event(TaskCalled(caller.id, task))

    def called(self, caller: Task, name: str) -> Task:
        """The same, where the effects don't matter."""
        return self.call(caller, name)[0]

    def ends(self, task: Task, value: Any = None) -> list[Effect]:
        """A call returns."""
        self.running.pop(task.id, None)
        return self.event(TaskSucceeded(TaskResult(task.id, ((RETURN, value),))))

    def asks(self, task: Task, question: str) -> list[Effect]:
        """A call asks."""
        self.running.pop(task.id, None)
        asked = Interrupt(question, interrupt_id(task.namespace, 0))
        return self.event(TaskInterrupted(task.id, (asked,)))

    def _note(self, effects: list[Effect]) -> list[Effect]:
        for effect in only(AnswerCall, effects):
            self.answers[effect.task] = effect
        return super()._note(effects)

"""Questions of a task that were not asked through its scope."""

from dataclasses import replace
from typing import cast

from actorgraph.errors import GraphInterrupt
from actorgraph.runtime.task.scope import UNHEARD, TaskScope
from actorgraph.values.ids import interrupt_id, is_interrupt_id


def adopt_questions(scope: TaskScope, error: BaseException) -> None:
    """Add the questions of a GraphInterrupt to those of a task.

    Those that the node raised itself have no id; those of a graph of LangGraph's have its.
    """
    scope.raised = [question for question in scope.raised if question is not UNHEARD]
    if isinstance(error, BaseExceptionGroup):
        for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            adopt_questions(scope, part)
    elif isinstance(error, GraphInterrupt):
        for question in error.interrupts:
            if not is_interrupt_id(question.id):
                index = max(scope.asked, len(scope.answers))
                scope.asked = index + 1
                identifier = interrupt_id(scope.task.namespace + scope.key, index)
                scope.raised.append(replace(question, id=identifier))
            elif all(question.id != known.id for known in scope.raised):
                scope.raised.append(question)

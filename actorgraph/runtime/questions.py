"""`interrupt()`: pause the run with a question, and check the answer."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

from actorgraph.errors import InvalidResumeError
from actorgraph.plan.json_schema import json_schema
from actorgraph.runtime.context import TaskScope, current
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import interrupt_id
from actorgraph.values.invalid_resumes import mark_invalid_resume

T = TypeVar("T")


@overload
def interrupt(value: Any, *, response_schema: type[T]) -> T: ...
@overload
def interrupt(value: Any, *, response_schema: dict[str, Any] | None = None) -> Any: ...
def interrupt(value: Any, *, response_schema: type | dict[str, Any] | None = None) -> Any:
    """Pause the run with a question; return its answer once the thread is resumed.

    The first call raises, and the run ends with the question in `__interrupt__`. When the
    thread is resumed with `Command(resume=answer)` the node runs again from its top, and the
    call returns the answer. The n-th call of a node gets its n-th answer.

    Args:
        value: the question; any value that can be stored.
        response_schema: the schema of the answer. A dict is a JSON schema that is shown with the
            question and checks nothing. A pydantic model, TypedDict, dataclass or msgspec Struct
            is shown as a JSON schema, checks the answer and converts it to that type.
    Returns: the answer.
    Raises:
        GraphInterrupt: there is no answer yet. It is a BaseException, so that
            `except Exception` doesn't catch it.
        InvalidResumeError, pydantic.ValidationError: the answer doesn't fit the schema. It is
            dropped, and the question stays open; see `is_invalid_resume`.
        OutsideRunError: not called in a node.
    """
    scope = current("interrupt()")
    if response_schema is None:
        return scope.ask(value)
    if isinstance(response_schema, dict):
        return scope.ask(value, response_schema)
    shown = json_schema(response_schema, title=response_schema.__name__)
    number = scope.asked
    answer = scope.ask(value, shown)
    return _convert_answer(answer, response_schema, lambda: _question(scope, number, value, shown))


def _question(scope: TaskScope, number: int, value: Any, schema: dict[str, Any]) -> Interrupt:
    return Interrupt(value, interrupt_id(scope.task.namespace + scope.key, number), schema)


def _convert_answer(answer: Any, kind: Any, question: Callable[[], Interrupt]) -> Any:
    """Convert an answer to its type; an object of that type stays as it is."""
    try:
        if hasattr(kind, "model_validate"):
            return kind.model_validate(answer)
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        refused = InvalidResumeError(
            f"the answer to {question().id} is not a valid {kind.__name__}: {error}",
            do="resume again with an answer that fits interrupt.response_schema",
        )
        mark_invalid_resume(refused, question())
        raise refused from error
    except ValueError as error:  # pydantic's ValidationError
        mark_invalid_resume(error, question())
        raise

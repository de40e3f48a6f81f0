"""GraphOutput: the result of `invoke(..., version="v2")`."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import INTERRUPT

OutputT = TypeVar("OutputT")


@dataclass(frozen=True)  # no slots: GraphOutput[T](...) sets an attribute
class GraphOutput(Generic[OutputT]):
    """A run's output and its open questions.

    `result["key"]` and `"key" in result` read the value, and `"__interrupt__"` the questions, for
    programs that were written for the dict of version "v1".

    Attributes:
        value: the output, in the graph's output schema.
        interrupts: the open questions; () when the run is done.
    """

    value: OutputT
    interrupts: tuple[Interrupt, ...] = ()

    def __getitem__(self, key: str) -> Any:
        if key == INTERRUPT:
            return self.interrupts
        if isinstance(self.value, dict):
            return self.value[key]
        try:
            return getattr(self.value, key)
        except AttributeError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        if key == INTERRUPT:
            return bool(self.interrupts)
        if isinstance(self.value, dict):
            return key in self.value
        return isinstance(key, str) and hasattr(self.value, key)

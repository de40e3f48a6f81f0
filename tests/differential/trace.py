"""A spec, and the trace of its run: the types that rules, drivers and workers share."""

from collections.abc import Callable
from typing import Any

Spec = dict[str, Any]
Trace = list[dict[str, Any]]
Cut = tuple[int, tuple[str, ...]]
Rule = Callable[[Spec, Trace, Trace], Cut | None]

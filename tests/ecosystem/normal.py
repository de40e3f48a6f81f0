"""Objects of a program as JSON, without what differs from run to run."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

IDENTITIES = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<hash>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r" at 0x[0-9a-f]+"), " at <address>"),
)
VERSIONS = {"versions", "lc_versions"}
"""Metadata that names the versions of packages."""


def normal(value: Any) -> Any:
    """Return a value as JSON knows it, volatile texts replaced."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        for pattern, instead in IDENTITIES:
            value = pattern.sub(instead, value)
        return str(value)
    if isinstance(value, BaseMessage):
        shown = value.model_dump(exclude_defaults=True)
        return {"message": type(value).__name__, "content": value.content, **normal(shown)}
    if isinstance(value, BaseModel):
        return {"model": type(value).__name__, **normal(value.model_dump())}
    if isinstance(value, Mapping):
        return {normal(str(k)): normal(one) for k, one in value.items() if k not in VERSIONS}
    return _other(value)


def _other(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted((normal(one) for one in value), key=str)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: normal(getattr(value, name)) for name in value._fields}
    if isinstance(value, list | tuple):
        return [normal(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
        shown = {name: normal(getattr(value, name, None)) for name in fields if name != "id"}
        return {"class": type(value).__name__, **shown}
    if hasattr(value, "value") and hasattr(value, "id"):  # an Interrupt
        return {"class": type(value).__name__, "value": normal(value.value)}
    return normal(f"{type(value).__name__} {value!r}"[:300])

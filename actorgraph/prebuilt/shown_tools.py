"""Tools as a model sees them: without the parameters that the graph injects."""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from actorgraph.internals import function_annotations, signature_of
from actorgraph.prebuilt.tools import ForeignTool, Tool, tool_of


def arguments_schema(tool: Tool | ForeignTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, without those that the graph injects."""
    if isinstance(tool, Tool):
        return tool.args_schema
    names = ("tool_call_schema", "args_schema")
    found = (getattr(tool.given, name, None) for name in names)
    schema: Any = next((one for one in found if one is not None), None)
    if hasattr(schema, "model_json_schema"):
        schema = _visible(schema, tool.injected.hidden).model_json_schema()
    return _without(schema or {"type": "object", "properties": {}}, tool.injected.hidden)


def _visible(model: Any, hidden: frozenset[str]) -> Any:
    """Return a pydantic model without fields; those of a `ToolRuntime | None` have no JSON schema.

    Models of pydantic 1 and of other makers are returned as they are.
    """
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is None or not hidden & fields.keys():
        return model
    kept = {name: (f.annotation, f) for name, f in fields.items() if name not in hidden}
    return pydantic.create_model(
        model.__name__, __config__=model.model_config, __doc__=model.__doc__, **kept
    )


def _without(schema: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    shown = dict(schema)
    properties = shown.get("properties", {})
    shown["properties"] = {name: one for name, one in properties.items() if name not in hidden}
    required = [name for name in shown.pop("required", ()) if name not in hidden]
    return {**shown, "required": required} if required else shown


def shown_tool(given: Any) -> Any:
    """Return the function or object that is bound to a model for a tool, without hidden parameters.

    LangChain looks for marks in annotations that aren't texts, and not inside Optional; so a
    function with injected parameters gets a signature without them, a tool object another schema.
    """
    if isinstance(given, dict):
        return given
    tool = tool_of(given)
    if isinstance(tool, Tool):
        return _shown_function(tool.function, tool.injected.hidden)
    schema = getattr(tool.given, "tool_call_schema", None)
    fields = getattr(schema, "model_fields", None) or {}
    if not tool.injected.hidden & fields.keys() or not hasattr(tool.given, "model_copy"):
        return tool.given
    return tool.given.model_copy(update={"args_schema": arguments_schema(tool)})


def _shown_function(function: Callable[..., Any], hidden: frozenset[str]) -> Callable[..., Any]:
    if not hidden:
        return function
    hints = function_annotations(function)
    signature = signature_of(function)
    parameters = [p for name, p in signature.parameters.items() if name not in hidden]

    @functools.wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def shown(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    del shown.__wrapped__
    known = {p.name: hints[p.name] for p in parameters if p.name in hints}
    typed = [p.replace(annotation=known.get(p.name, p.empty)) for p in parameters]
    shown.__annotations__ = known
    vars(shown)["__signature__"] = signature.replace(
        parameters=typed, return_annotation=signature.empty
    )
    return shown

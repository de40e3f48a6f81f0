"""Chat messages are always allowed: ours, and LangChain's once the program has imported it."""

from actorgraph.messages.forms import langchain
from actorgraph.messages.kinds import KINDS

_OURS = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in KINDS}
_LANGCHAIN = "langchain_core.messages."


def message_type(name: str) -> type | None:
    """Return the message class with this stored name; None if there is none."""
    if not name.startswith(_LANGCHAIN):
        return _OURS.get(name)
    module = langchain()
    kind = getattr(module, name.partition(":")[2], None) if module is not None else None
    if module is None or not isinstance(kind, type) or not issubclass(kind, module.BaseMessage):
        return None
    return kind if f"{kind.__module__}:{kind.__qualname__}" == name else None

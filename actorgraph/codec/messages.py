"""Chat messages are always on the codec's list: ours, and LangChain's once it has been imported.

Nothing is imported on load: a stored LangChain message is an error in a program without it.
"""

from actorgraph.messages.forms import langchain
from actorgraph.messages.kinds import KINDS

_OURS = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in KINDS}
_LANGCHAIN = "langchain_core.messages."


def message_kind(name: str) -> type | None:
    """The class of messages with this stored name; None if it is none."""
    if not name.startswith(_LANGCHAIN):
        return _OURS.get(name)
    module = langchain()
    kind = getattr(module, name.partition(":")[2], None) if module is not None else None
    if module is None or not isinstance(kind, type) or not issubclass(kind, module.BaseMessage):
        return None
    return kind if f"{kind.__module__}:{kind.__qualname__}" == name else None

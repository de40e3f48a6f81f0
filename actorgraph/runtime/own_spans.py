"""Whether runs begin spans of this library's own; see `runtime/run/tracing.py`."""


class OwnSpans:
    """The switch of this process.

    Attributes:
        on: off while `import langgraph` is answered from here: programs that were written for
            LangGraph have tracers that make the spans, and would get each one twice.
    """

    on = True

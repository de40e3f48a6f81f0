"""LangGraph's protected base of transformers that follow tasks, for those of LangChain."""

from actorgraph.api.streams.events import StreamTransformer


class TasksLifecycleBase(StreamTransformer):
    """Follows the tasks of a run, and reports the starts and ends of nested runs."""

    required_stream_modes = ("tasks",)

"""Graphs: their builders, what a compiled one gives to programs, callbacks of its runs.

The home of LangGraph's `langgraph.graph`, `pregel`, `managed` and `callbacks`. Nothing is defined
here.
"""

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.graph.drawable import DrawableGraph
from actorgraph.api.graph.pregel import NodeBuilder, Pregel
from actorgraph.api.graph.state_graph import StateGraph
from actorgraph.messages import MessagesState, add_messages
from actorgraph.plan.channel_graph import ChannelWriteEntry
from actorgraph.plan.schema import IsLastStep, RemainingSteps
from actorgraph.runtime.run.callbacks import (
    GraphCallbackHandler,
    GraphInterruptEvent,
    GraphLifecycleEvent,
    GraphResumeEvent,
)
from actorgraph.values.constants import END, START

__all__ = [
    "END",
    "START",
    "ChannelWriteEntry",
    "CompiledStateGraph",
    "DrawableGraph",
    "GraphCallbackHandler",
    "GraphInterruptEvent",
    "GraphLifecycleEvent",
    "GraphResumeEvent",
    "IsLastStep",
    "MessagesState",
    "NodeBuilder",
    "Pregel",
    "RemainingSteps",
    "StateGraph",
    "add_messages",
]

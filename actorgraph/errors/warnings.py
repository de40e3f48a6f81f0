"""Warnings."""


class ActorGraphWarning(UserWarning):
    """Base of all warnings of this library."""


class UnknownChannelWarning(ActorGraphWarning):
    """A node returned a key that is not a channel of the graph; the key was dropped."""


class OtherGraphWarning(ActorGraphWarning):
    """A graph continues the thread of a graph with which it shares no node."""


class CompiledGraphWarning(ActorGraphWarning):
    """A builder was changed after `compile`; the compiled graph stays as it is."""


class OldNameWarning(ActorGraphWarning, DeprecationWarning):
    """An argument was passed under the name that it had in older versions of LangGraph."""


class UnreachableNodeWarning(ActorGraphWarning):
    """No edge leads to a node."""


class NothingToRunWarning(ActorGraphWarning):
    """An update of a thread's state has left it without a task, so that a run ends at once."""


class SwallowedInterruptWarning(ActorGraphWarning):
    """A node called `interrupt()` and then returned as if it had not."""


class LostPauseWarning(ActorGraphWarning):
    """A run has paused without a checkpointer: no call can resume it."""


class CacheWarning(ActorGraphWarning):
    """A cache failed to read or store a node's result; the run goes on without it."""


class SlowRouterWarning(ActorGraphWarning):
    """A router that was declared by `inline=True` took so long that other tasks waited for it."""


class LostErrorWarning(ActorGraphWarning):
    """A `@task` call failed, and its caller returned without awaiting it."""


class UnsafeSettingWarning(ActorGraphWarning):
    """A setting weakens a guarantee."""


class ForeignSaverWarning(ActorGraphWarning):
    """The checkpointer implements LangGraph's interface, which guarantees less than our savers."""


class UndeclaredTypeWarning(ActorGraphWarning):
    """A value was stored whose type nothing declares: only this process can read it."""


class UnresolvedAnnotationWarning(ActorGraphWarning):
    """A node's or router's own state is annotated by a name that doesn't exist at run time."""

"""What goes on, and should be looked at."""


class ActorGraphWarning(UserWarning):
    """Base of all warnings of this library."""


class UnknownChannelWarning(ActorGraphWarning):
    """A node returned a key that is no channel of the graph; the key was dropped."""


class OtherGraphWarning(ActorGraphWarning):
    """A graph goes on with the thread of one that it shares no node with."""


class CompiledGraphWarning(ActorGraphWarning):
    """A builder was changed after `compile`; what was compiled stays as it is."""


class UnreachableNodeWarning(ActorGraphWarning):
    """No edge leads to a node."""


class SwallowedInterruptWarning(ActorGraphWarning):
    """A node called `interrupt()` and then returned as if it had not."""


class CacheWarning(ActorGraphWarning):
    """A cache failed to find or keep a node's result; the run goes on without."""


class LostErrorWarning(ActorGraphWarning):
    """A call of a `@task` function failed, and its caller returned without waiting for it."""


class UnsafeSettingWarning(ActorGraphWarning):
    """A setting gives up a guarantee."""


class ForeignSaverWarning(ActorGraphWarning):
    """The checkpointer is a saver of LangGraph's interface, which can promise less than ours."""

"""Checkpoints in memory: the saver that never waits."""

from actorgraph.savers.memory.saver import MemoryBackend

__all__ = ["MemoryBackend"]

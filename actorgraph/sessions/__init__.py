"""Sessions: turns of a program that are taken up where they were left, over any saver."""

from actorgraph.sessions.records import Checkpoint, CheckpointSaver
from actorgraph.sessions.saver import SessionSaver
from actorgraph.sessions.session import Session, session

__all__ = ["Checkpoint", "CheckpointSaver", "Session", "SessionSaver", "session"]

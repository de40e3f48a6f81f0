"""Sessions: the turns of a program, stored in any saver and resumed where they ended."""

from actorgraph.sessions.saver import Checkpoint, CheckpointSaver, SessionSaver
from actorgraph.sessions.session import Session, session

__all__ = ["Checkpoint", "CheckpointSaver", "Session", "SessionSaver", "session"]

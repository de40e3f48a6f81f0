"""Locks of open files, which keep other processes out; they end with the process."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file, without waiting; a platform without file locks locks nothing.

    Returns: False if something else has the lock.
    Raises:
        OSError: the file can't be locked, on this file system for example.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""A copy of a folder while it is in use: each thread's file as it is at one moment.

Lines are only added and a file that is written anew is another file, so what stands in an open
file up to its size never changes. Opening it and reading its size happens between two batches,
copying doesn't.
"""

import os
import shutil
from pathlib import Path

from actorgraph.errors import InvalidConfigError, StorageError
from actorgraph.savers.jsonl.files import Files, translate
from actorgraph.savers.jsonl.folder import LOCK, TEMPORARY, Folder, acquire_folder, release_folder
from actorgraph.savers.jsonl.marks import MARKS_NAME

_CHUNK = 1 << 20


def copy_folder(path: str, files: Files, dest: str) -> None:
    """Copy a folder of threads; the copy gets its name when it is whole and on the disk.

    A thread that is made meanwhile may or may not be in it.

    Raises:
        InvalidConfigError: there is something at `dest`, or it is inside of the folder.
        StorageBusyError: another process has the folder open.
        StorageError: it can't be read, or the copy can't be written; nothing is left of that.
    """
    if not dest or os.path.lexists(dest):
        raise InvalidConfigError(
            f"there is something at {dest!r} already", do="name a folder that doesn't exist"
        )
    if Path(path).resolve() in Path(dest).resolve().parents:
        raise InvalidConfigError(
            f"{dest!r} is inside of the folder that is copied", do="name another place"
        )
    part = f"{dest}.part"
    try:
        folder = acquire_folder(path, files)
    except OSError as error:
        raise translate(error, path) from error
    try:
        Path(part).mkdir(mode=0o700)
        for name in _names(folder):
            _copy(folder, files, name, part)
        files.sync_folder(part)
        files.rename(part, dest)
        files.sync_folder(str(Path(dest).parent))
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageError(
                f"can't write the backup {dest!r}: {error}",
                do="make its folder, free some space, or name another path",
            ) from error
        raise
    finally:
        release_folder(folder)


def _names(folder: Folder) -> list[str]:
    names = (path.name for path in Path(folder.path).iterdir() if path.is_file())
    return sorted(
        name for name in names if name not in {LOCK, MARKS_NAME} and not name.endswith(TEMPORARY)
    )


def _copy(folder: Folder, files: Files, name: str, part: str) -> None:
    with folder.writing:
        try:
            source = os.open(Path(folder.path, name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the thread was deleted meanwhile
            return
        size = os.fstat(source).st_size
    try:
        target = files.create(str(Path(part, name)))
        try:
            position = 0
            while position < size:
                data = os.pread(source, min(_CHUNK, size - position), position)
                if not data:
                    break
                files.write(target, data, position)
                position += len(data)
            files.sync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)

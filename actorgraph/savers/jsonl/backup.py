"""Copy a folder that is in use: each thread's file in one consistent state.

Lines are only appended, and a rewritten file is another inode, so the bytes of an open file up to
its size never change. So only opening it and reading its size needs the lock on writing; copying
does not.
"""

import os
from pathlib import Path

from actorgraph.errors import InvalidConfigError
from actorgraph.savers.jsonl.files import MARKS_NAME, Files, translate
from actorgraph.savers.jsonl.folder import LOCK, TEMPORARY, Folder, acquire_folder, release_folder
from actorgraph.storage.file_errors import checked_path, file_error
from actorgraph.storage.part_files import locked_part

_CHUNK = 1 << 20


def copy_folder(path: str, files: Files, dest: str) -> None:
    """Copy a folder of threads; the copy gets its name when it is complete and synced.

    A thread that is created meanwhile may or may not be in it.

    Raises:
        InvalidConfigError: `dest` exists, or is inside the folder.
        StorageBusyError: another process has the folder open, or a backup is being made there.
        StorageError: the folder can't be read, or the copy can't be written; a partial copy is
            removed.
    """
    checked_path(dest, "a backup")
    if os.path.lexists(dest):
        raise InvalidConfigError(f"{dest!r} exists already", do="name a folder that doesn't exist")
    # `Path.resolve` raises for a loop of links.
    if Path(os.path.realpath(path)) in Path(os.path.realpath(dest)).parents:
        raise InvalidConfigError(
            f"{dest!r} is inside the folder that is copied", do="name a path outside of it"
        )
    try:
        folder = acquire_folder(path, files)
    except OSError as error:
        raise translate(error, path) from error
    try:
        with locked_part(dest, folder=True) as part:
            for name in _names(folder):
                _copy(folder, files, name, str(part))
            files.sync_folder(str(part))
            files.rename(str(part), dest)
            files.sync_folder(str(Path(dest).absolute().parent))
    except OSError as error:
        do = "make its folder, or name another path"
        raise file_error(error, f"can't write the backup {dest!r}", do) from error
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
        except FileNotFoundError:  # the thread was deleted since the folder was listed
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

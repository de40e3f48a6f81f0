"""Whether an open database still is the file of its name.

Who removes or replaces the file of an open database leaves SQLite writing to a file without a name:
what it commits is gone when it is closed. So each commit looks, before it is acknowledged.
"""

import os
from pathlib import Path

from actorgraph.errors import SaverBrokenError


class Whereabouts:
    """The file that a path names now.

    Raises:
        OSError: it names none.
    """

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())  # the process may change its folder
        self._file = _file_of(self._path)

    def check(self) -> None:
        """See that the path still names it.

        Raises: SaverBrokenError.
        """
        try:
            found = _file_of(self._path)
        except OSError:
            found = None
        if found != self._file:
            what = "removed" if found is None else "replaced"
            raise SaverBrokenError(
                f"the database {self._path!r} was {what} while it was open: what is stored there "
                "now, and the last commit, are in no file of that name",
                do="close the saver, put the file back, and open it again; close savers before "
                "restoring a backup over their file",
            )


def _file_of(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - once for each commit
    return found.st_dev, found.st_ino

"""A file system that fails at the k-th operation, for `JsonlSaver`; see `testing.faults`."""

import errno

from actorgraph.savers.jsonl.files import Files
from actorgraph.testing.faults import FaultPlan


def failing_files(plan: FaultPlan) -> type[Files]:
    """Make a class of file systems that fails as `plan` says: writes, syncs, renames, removals.

        class Failing(JsonlSaver):
            files_class = failing_files(FaultPlan(fail_at=7))

    The error is an OSError by default, so that the saver's own error handling is tested.
    """

    class FailingFiles(Files):
        def write(self, descriptor: int, data: bytes, offset: int) -> None:
            plan.run("write", lambda: Files.write(self, descriptor, data, offset), _failure)

        def truncate(self, descriptor: int, size: int) -> None:
            plan.run("truncate", lambda: Files.truncate(self, descriptor, size), _failure)

        def sync(self, descriptor: int) -> None:
            plan.run("sync", lambda: Files.sync(self, descriptor), _failure)

        def sync_folder(self, path: str) -> None:
            plan.run("sync folder", lambda: Files.sync_folder(self, path), _failure)

        def rename(self, source: str, target: str) -> None:
            plan.run("rename", lambda: Files.rename(self, source, target), _failure)

        def remove(self, path: str) -> None:
            plan.run("remove", lambda: Files.remove(self, path), _failure)

    return FailingFiles


def _failure() -> OSError:
    return OSError(errno.EIO, "injected fault")

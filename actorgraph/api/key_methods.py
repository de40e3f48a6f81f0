"""Re-encrypt stored data with another key."""

from typing import cast

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of
from actorgraph.codec import Codec
from actorgraph.codec.resealing import ThreadResealer
from actorgraph.errors import CheckpointError, InvalidConfigError
from actorgraph.errors.storage import fails_every_request
from actorgraph.errors.telling import add_note, combine_errors
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import host_of
from actorgraph.runtime.system.resealing import reseal_runs
from actorgraph.values.retention import ListThreads, Reseal


class KeyMethods:
    """`arotate_keys` and its blocking version."""

    codec: Codec

    async def arotate_keys(self, thread_id: str | None = None) -> int:
        """Encrypt what is stored with the codec's first key; then older keys can be dropped.

        Values that weren't encrypted are encrypted too, if the codec has `reads_plain=True`. It
        must keep that for these threads: None, booleans and integers in the records of their old
        checkpoints stay as they are. Inputs of runs that have stored nothing else, and what an
        ActorSystem keeps (its runs, their events), are encrypted too.

        Each thread is changed in one transaction, and the call may be repeated. Runs may be
        active meanwhile if the codec of their saver has the new key first already. Call
        `avacuum` afterwards: the old bytes may still be in the free space of the files.

        Args:
            thread_id: only this thread; default all of them.
        Returns: the number of threads changed.
        Raises:
            InvalidConfigError: the codec has no keys.
            EncryptionError, SerializationError, DamagedRowError: a value can't be read; its
                thread stays as it is, all others are changed. Of several errors the first is
                raised, with a note for each other.
        """
        if not self.codec.encrypts:
            raise InvalidConfigError(
                "rotate_keys() encrypts with the first key, but this saver's codec has no keys",
                do="pass codec=Codec(keys={'new': ..., 'old': ...}) to the saver",
            )
        host = host_of(cast("Saver", self))
        if thread_id is None:
            threads: list[str] = await host.reader.ask(ListThreads(inputs=True))
        else:
            config = {"configurable": {"thread_id": thread_id}}
            threads = [address_of(config, needs_thread=True).thread_id]
        failed: list[CheckpointError] = []
        for thread in threads:
            try:
                await host.writer.store(Reseal(thread, ThreadResealer(self.codec, thread, thread)))
            except CheckpointError as error:
                if fails_every_request(error):
                    raise
                add_note(error, f"thread {thread!r} stays as it is")
                failed.append(error)
        if getattr(self, "keeps_runs", False):
            failed += await reseal_runs(host, self.codec, thread_id)
        if failed:
            raise combine_errors(failed)
        return len(threads)

    def rotate_keys(self, thread_id: str | None = None) -> int:
        """Blocking version of `arotate_keys`."""
        return block_on("arotate_keys", lambda: self.arotate_keys(thread_id))

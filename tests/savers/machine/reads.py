"""Rules about reads that concern every thread: listings forwards, counts."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.savers.machine.base import Machine
from tests.savers.machine.draws import graphs, namespaces, raw


class Reads(Machine):
    """Reads what any rule has stored."""

    @rule(
        thread=st.one_of(raw, graphs),
        namespace=st.one_of(namespaces, st.none()),
        limit=st.sampled_from([None, 2, 3]),
    )
    def list_forwards(self, thread, namespace, limit) -> None:
        """In the order in which they were stored; a limit counts from the oldest."""
        options = {"order": "insertion", "checkpoint_ns": namespace, "limit": limit}
        found = self.call(self.saver.alist_metadata, thread, **options)
        there = self.model.there(thread, namespace)
        assert [
            (f.checkpoint_id, f.parent_id, f.checkpoint_ns, f.step, f.source) for f in found
        ] == [(p.id, p.parent, p.namespace, p.step, p.source) for p in there[:limit]]
        assert self.call(self.saver.acount, thread, checkpoint_ns=namespace) == len(there)

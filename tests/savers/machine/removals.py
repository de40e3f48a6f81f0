"""Rules about whole threads: deletions, copies, prunes, crashes."""

import shutil

from hypothesis import strategies as st
from hypothesis.stateful import rule

from actorgraph import ConflictError
from actorgraph.testing.conformance.builders import new_id
from tests.savers.machine.base import GRAPH, RAW, Machine, pick
from tests.savers.machine.draws import graphs, namespaces, picks, raw


class Removals(Machine):
    """Removes and copies what any rule has stored."""

    @rule(thread=st.one_of(raw, graphs))
    def delete_thread(self, thread) -> None:
        self.delete(thread)

    def delete(self, thread: str) -> None:
        self.call(self.saver.adelete_thread, thread)
        self.model.threads.pop(thread, None)
        self.unsure.discard(thread)
        self.check(thread)

    @rule(source=st.one_of(raw, graphs), number=picks, fresh=st.booleans())
    def copy(self, source, number, fresh) -> None:
        target = pick([t for t in (RAW if source in RAW else GRAPH) if t != source], number)
        if fresh:
            self.delete(target)
        if self.model.there(target):
            try:
                self.call(self.saver.acopy_thread, source, target)
            except ConflictError:
                return self.check(target)
            raise AssertionError("a copy over a thread that is there")
        self.call(self.saver.acopy_thread, source, target)
        self.model.copy(source, target)
        self.unsure.discard(target)
        self.unsure |= {target} if source in self.unsure else set()
        self.check(target)
        return self.check(source)

    @rule(thread=st.one_of(raw, graphs), number=picks)
    def delete_by_run(self, thread, number) -> None:
        run = pick(sorted({p.run for p in self.model.there(thread) if p.run}), number)
        if run is not None:
            removed = self.call(self.saver.adelete_by_run, thread, run)
            assert removed == self.model.delete_run(thread, run)
            self.unsure.add(thread)
            self.check(thread)

    @rule(thread=st.one_of(raw, graphs), namespace=namespaces, numbers=st.sets(picks, max_size=3))
    def delete_checkpoints(self, thread, namespace, numbers) -> None:
        there = self.model.there(thread, namespace)
        ids = {pick(there, number).id for number in numbers if there} | {new_id()}
        removed = self.call(self.saver.adelete_checkpoints, thread, ids, checkpoint_ns=namespace)
        assert removed == self.model.delete_points(thread, namespace, ids)
        self.unsure.add(thread)
        self.check(thread)

    @rule(thread=raw, namespace=namespaces, number=picks)
    def delete_a_twin(self, thread, namespace, number) -> None:
        """Of two checkpoints with one id one goes; the other keeps its writes."""
        there = {p.id for p in self.model.there(thread, namespace)}
        twins = [p.id for p in self.model.there(thread) if p.namespace != namespace]
        named = pick([twin for twin in twins if twin in there], number)
        if named is not None:
            removed = self.call(
                self.saver.adelete_checkpoints, thread, [named], checkpoint_ns=namespace
            )
            assert removed == self.model.delete_points(thread, namespace, {named}) == 1
            self.check(thread)

    @rule(thread=st.one_of(raw, graphs), keep=st.sampled_from([None, 0, 1, 2, 3]))
    def prune(self, thread, keep) -> None:
        if keep is None:
            removed = self.call(self.saver.aprune, [thread])
            assert removed == self.model.keep_latest(thread)
        else:
            removed = self.call(self.saver.aprune, thread, keep)
            assert removed == self.model.keep_last(thread, keep)
        self.check(thread)

    @rule()
    def crash(self) -> None:
        """A new process on what the old one left; of files a copy, made while they are open."""
        self.crashes += 1
        if not any(self.folder.iterdir()):
            return self._reopen(self.folder)
        folder = self.folder.parent / f"crash{self.crashes}"
        shutil.copytree(self.folder, folder)
        return self._reopen(folder)

"""Samples of a system's figures."""

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.runtime.system.sampling import SAMPLES_MAX, Sampler, sample_of
from tests.support.graphs import in_a_row, writer


class TestSamples:
    async def test_a_sample_counts_what_happened_since_the_one_before(self):
        """
        Runs that started and ended between two samples are in the second.
        """
        graph = in_a_row({"a": writer("a")})
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            before = system.statistics()
            run = await system.start("g", None, {"bar": []})
            await run.result()
            sample = sample_of(system.statistics(), before, 7)
            again = sample_of(system.statistics(), system.statistics(), 8)

        assert (sample.time, sample.started, sample.ended, sample.errors) == (7, 1, 1, 0)
        assert sample.supersteps > 0
        assert (again.started, again.ended, again.supersteps, again.commits) == (0, 0, 0, 0)

    async def test_the_ring_is_bounded(self):
        """
        Old samples are dropped; the first call only notes the counts.
        """
        graph = in_a_row({"a": writer("a")})
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            sampler = Sampler(system.statistics)
            sampler.take()
            first = len(sampler.samples)
            for _ in range(SAMPLES_MAX + 5):
                sampler.take()

        assert (first, len(sampler.samples)) == (0, SAMPLES_MAX)

"""Histograms of the persistence actor."""

from actorgraph import SqliteSaver
from actorgraph.runtime.saver.statistics import Histogram
from actorgraph.testing import GatedSaver
from tests.support.gates import patient_group
from tests.support.graphs import ab, at


def test_a_value_is_counted_in_its_bin():
    """
    A value on a bound is below it; those above all bounds have a bin of their own.
    """
    seen = Histogram((1, 10))
    for value in (0.5, 1, 2, 10, 11):
        seen.add(value)

    found = seen.distribution()
    assert (found.bounds, found.counts, found.total) == ((1, 10), (2, 2, 1), 24.5)


async def test_a_batch_in_flight_has_an_age(tmp_path):
    """
    While a commit hangs, the age of what waits for it grows; afterwards it is in the histogram.
    """
    async with GatedSaver(SqliteSaver(tmp_path / "runs.db")) as saver:
        graph = ab(saver)
        async with patient_group(saver) as group:
            group.start_soon(graph.ainvoke, {"bar": []}, at())
            await saver.waiting()
            first, second = saver.statistics(), saver.statistics()
            saver.release(None)
        after = saver.statistics()

    assert second.age_s > first.age_s > 0
    assert (first.commits, sum(first.lags_s.counts)) == (0, 0)
    assert sum(after.lags_s.counts) == sum(after.sizes.counts) == after.commits > 0
    assert after.lags_s.total >= after.commits_s.total == after.commit_s
    assert (after.sizes.total, after.age_s) == (after.messages, 0)

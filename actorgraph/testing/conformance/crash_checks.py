"""Checks of crash safety: the storage fails at any operation."""

from contextlib import suppress

from actorgraph.errors import SaverBrokenError, StorageError
from actorgraph.ports import Saver
from actorgraph.testing.conformance.builders import RUN, Ids, commit_batch, outside, page
from actorgraph.testing.conformance.harness import Bench, check, holds, opened, same
from actorgraph.testing.faults import FaultPlan, When
from actorgraph.values.commits import CommitOutcome
from actorgraph.values.retention import DeleteThread

OPERATIONS_MAX = 400
BATCH = 4


async def _batches(port: Saver, ids: Ids, acknowledged: list[int]) -> None:
    """Store three batches, each with a checkpoint of four threads; note the acknowledged ones."""
    for number in range(3):
        parent = number - 1 if number else None
        batch = [outside(ids.point(number, parent), thread=f"t{n}") for n in range(BATCH)]
        outcomes: list[CommitOutcome] = await commit_batch(port, *batch)
        same(len(outcomes), BATCH, "outcomes of a batch")
        acknowledged.append(number)


async def _left(port: Saver) -> list[list[int]]:
    """The steps of each thread, oldest first."""
    return [[f.row.step for f in reversed(await page(port, f"t{n}"))] for n in range(BATCH)]


async def _crash(bench: Bench, plan: FaultPlan, ids: Ids) -> list[int]:
    """Store with a failing saver until it fails; return the acknowledged batches."""
    acknowledged = list[int]()
    try:
        async with opened(bench.failing(plan)) as port:
            await _batches(port, ids, acknowledged)
    except (StorageError, SaverBrokenError):
        pass
    return acknowledged


async def _every_point(bench: Bench, when: When) -> None:
    found = FaultPlan()
    await _crash(bench, found, Ids())
    count = len(found.operations)
    holds(0 < count < OPERATIONS_MAX, f"{count} operations were counted")
    for fail_at in range(1, count + 1):
        async with bench.port() as port:
            await commit_batch(port, *(DeleteThread(f"t{n}") for n in range(BATCH)))
        plan = FaultPlan(fail_at, when)
        acknowledged = await _crash(bench, plan, Ids())
        async with bench.port() as port:
            left = await _left(port)
        what = f"a fault {when} operation {fail_at} of {count}"
        same(left, [left[0]] * BATCH, f"{what}: each batch is whole, or nothing of it")
        holds(
            left[0][: len(acknowledged)] == acknowledged,
            f"{what}: acknowledged {acknowledged}, there {left[0]}",
        )
        holds(
            len(left[0]) <= len(acknowledged) + 1,
            f"{what}: more is there than was stored: {left[0]}",
        )


@check("failures")
async def before_each_operation(bench: Bench) -> None:
    """If any operation fails before its effect, each batch is stored whole or not at all."""
    await _every_point(bench, "before")


@check("failures")
async def after_each_operation(bench: Bench) -> None:
    """If it fails after its effect, all acknowledged batches are stored, and at most one more."""
    await _every_point(bench, "after")


@check("failures")
async def a_fault_that_passes(bench: Bench) -> None:
    """After one failed operation a reopened saver can store again."""
    ids = Ids()
    found = FaultPlan()
    await _crash(bench, found, ids)
    for fail_at in range(1, len(found.operations) + 1, 3):
        with suppress(StorageError, SaverBrokenError):
            async with opened(bench.failing(FaultPlan(fail_at, lasting=False))) as port:
                await commit_batch(
                    port, ids.claim(RUN, None, ids.point(1), thread_id=f"f{fail_at}")
                )
        async with bench.port() as port:
            outcomes = await commit_batch(port, outside(ids.point(2), thread=f"f{fail_at}"))
            same([type(o).__name__ for o in outcomes], ["Committed"], "a save after the fault")

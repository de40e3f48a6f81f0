"""`@task` functions that tests call as steps of a program."""

import anyio
import anyio.lowlevel

from actorgraph import task


@task
async def plus(n: int, more: int = 1) -> int:
    await anyio.lowlevel.checkpoint()
    return n + more


@task
def plus_in_a_thread(n: int, more: int = 1) -> int:
    return n + more


class Slow:
    """A task that says when it began and ended, and waits to be let go."""

    def __init__(self) -> None:
        self.began, self.goes = anyio.Event(), anyio.Event()
        self.ended: list[str] = []

    async def __call__(self) -> str:
        self.began.set()
        try:
            await self.goes.wait()
        except BaseException:
            self.ended.append("stopped")
            raise
        self.ended.append("returned")
        return "slow"

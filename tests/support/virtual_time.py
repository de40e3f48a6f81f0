"""A loop whose clock jumps to what is waited for, so that hours of waiting take no time."""

from collections.abc import Awaitable, Callable

import anyio
import trio.testing


def in_virtual_time(main: Callable[[], Awaitable[None]]) -> None:
    """Run in a trio loop whose clock jumps to what is waited for, for an hour of it at most."""

    async def bounded() -> None:
        with anyio.fail_after(3600):
            await main()

    # Not 0: a thread that the system waits for is nothing that the clock sees.
    clock = trio.testing.MockClock(autojump_threshold=0.05)
    anyio.run(bounded, backend="trio", backend_options={"clock": clock})

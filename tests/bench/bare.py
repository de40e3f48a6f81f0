"""The floor of blocking calls: the least that can drive the core, in place of our supervisor.

A loop that performs the core's effects in their order, in the calling thread: it calls the one
task that is due, hands over what is to be saved or read, and gives the core each event. Left out
is what a program may need of a call: helpers' threads and their watcher, `@task` calls, time
limits, cancellation, events of other threads and their lock, signals while it works, and the
finished work of a run that an error ends. All else is the library's own: the call's arguments, the
core, the task's attempt, encoding, the saver. What a call costs above this is the driver's.

The workloads are those of `blocking.py`; their graphs have one task a superstep.
"""

# ruff: noqa: SLF001 - a driver has access to what the one in its place has.
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.bench import blocking
from tests.bench.libraries import Library


async def drive(supervisor: Any, first: Any, advance: Any) -> Any:
    """Perform the effects of a run, and return its outcome; `supervisor` is of the class below."""
    effects, events, state = deque(first), supervisor._events, supervisor._state
    while True:
        while effects:
            effect = effects.popleft()
            match type(effect).__name__:
                case "StartTask":
                    actor = supervisor._actors.of(effect)
                    actor.begin_here()
                    event = await actor.run_task(effect)
                    actor.count_end()
                    effects.extend(advance(state, event))
                case "Save":
                    while not supervisor._save(effect):
                        pass
                case "Emit":
                    for chunk in effect.chunks:
                        await supervisor._broadcast.send(chunk)
                case "Finish":
                    supervisor._release(effect.outcome)
                    return effect.outcome
        if events:
            effects.extend(advance(state, events.popleft()))
        else:
            await supervisor._wakes.wait()
            supervisor._wakes.items.clear()


@contextmanager
def bare_driver() -> Iterator[None]:
    """Let blocking calls be driven by `drive`."""
    from actorgraph.runtime.run import start
    from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
    from actorgraph.superstep.advance import advance

    class Bare(BlockingSupervisor):
        async def run(self, effects: Any) -> Any:
            return await drive(self, effects, advance)

        def _deliver(self, event: Any) -> None:
            self._events.append(event)
            self._wakes.put(None)

    with mock.patch.object(start, "BlockingSupervisor", Bare):
        yield


def loop(library: Library, path: Path, **arguments: Any) -> dict[str, Any]:
    """`blocking.loop` over the bare driver."""
    with bare_driver():
        return blocking.loop(library, path, **arguments)


def one_step(library: Library, path: Path, **arguments: Any) -> dict[str, Any]:
    """`blocking.one_step` over the bare driver."""
    with bare_driver():
        return blocking.one_step(library, path, **arguments)


def stream(library: Library, path: Path, **arguments: Any) -> dict[str, Any]:
    """`blocking.stream` over the bare driver."""
    with bare_driver():
        return blocking.stream(library, path, **arguments)

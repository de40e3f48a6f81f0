"""A run with converted values whose process was killed: who can go on with it."""

import signal
from typing import Any

import anyio
import pytest

from tests.support.converted_worker import Tensor, system_over
from tests.support.graphs import at
from tests.support.source_files import ROOT
from tests.support.system_worker import recover
from tests.support.warm_processes import popen

PATIENCE_S = 60.0


@pytest.fixture(params=["sqlite", "jsonl", "postgres"])
def place(request, tmp_path):
    if request.param != "postgres":
        return str(tmp_path / "runs.db") + ("/" if request.param == "jsonl" else "")
    server = request.getfixturevalue("postgres")
    return f"{server.url}#{request.getfixturevalue('schema')}"


def killed(*words: str) -> int:
    """Run the process until it has killed itself; its status."""
    process: Any = popen(["-m", "tests.support.converted_worker", *words], cwd=ROOT)
    try:
        return process.wait(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()


@pytest.mark.every_saver
@pytest.mark.parametrize("how", ["imported", "script"])
async def test_a_system_with_the_converter_goes_on(anyio_backend_name, place, how):
    """
    One without the converter, or with a class of another name, leaves the run as it is and says
    which; one with it, or with the migration, ends the run with equal values.
    """
    status = await anyio.to_thread.run_sync(killed, anyio_backend_name, place, how)
    ran: list[str] = []
    script = how == "script"
    with anyio.fail_after(PATIENCE_S):
        async with system_over(place, lambda: ran.append("last"), converts=script) as system:
            (left,) = await system.runs()
            while not left.reason:
                assert await system.recover() == []
                (left,) = await system.runs()
                await anyio.sleep(0.05)
        before = list(ran)
        async with system_over(place, lambda: ran.append("last"), script=script) as system:
            await recover(system)
            state = await system.graphs["g"].aget_state(at("t"))

    name = "__main__" if script else "tests.support.converted_worker"
    assert status == -signal.SIGKILL
    assert f"'{name}:Tensor'" in left.reason
    assert f"Migration(types={{'{name}:Tensor': Tensor}})" in left.reason
    assert before == []
    assert state.values == {"t": Tensor([5, 1]), "last": Tensor([5, 1, 2])}
    assert ran == ["last"]

"""Files of asynchronous code: aiofiles on asyncio, anyio's on trio, behind one port."""

import ast
import os
import sys
from collections.abc import Iterator

import anyio
import pytest

from actorgraph.storage.async_files import read_bytes, text_file
from tests.support.source_files import Place, Source, call_name, dotted, hold, snippet, sources

LINES = ["first\n", "süß\n", "\u2028one line\n", "no end"]
PORT = "actorgraph/storage/async_files.py"


@pytest.fixture
def pipe(tmp_path):
    """The path of a named pipe, at which opening, reading and writing wait for the other end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


class TestFiles:
    async def test_what_is_written_is_read(self, tmp_path):
        """
        Lines come back one by one, with their ends, as they were written.
        """
        path = tmp_path / "lines.txt"
        async with text_file(path, "w") as file:
            await file.write_lines(LINES[:1])
            await file.write_lines(iter(LINES[1:]))

        async with text_file(path, "r") as file:
            assert [line async for line in file] == LINES
        assert await read_bytes(path) == "".join(LINES).encode()

    async def test_each_loop_has_its_files(self, tmp_path, monkeypatch, anyio_backend):
        """
        On asyncio they are aiofiles'; on trio aiofiles is not even imported.
        """
        monkeypatch.delitem(sys.modules, "aiofiles", raising=False)

        async with text_file(tmp_path / "a", "w") as file:
            await file.write_lines(LINES)

        assert ("aiofiles" in sys.modules) == (anyio_backend == "asyncio")

    async def test_the_loop_goes_on(self, pipe):
        """
        Opening, reading and writing wait in worker threads: both ends of a pipe are in one loop.
        """
        found: list[str] = []

        async def read() -> None:
            async with text_file(pipe, "r") as file:
                found.extend([line async for line in file])

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            async with text_file(pipe, "w") as file:
                await file.write_lines(LINES)

        assert found == LINES

    async def test_a_call_is_over_when_it_returns(self, pipe):
        """
        A cancelled caller waits for what a thread has begun, and closes its file.
        """
        ended: list[bytes] = []

        async def write() -> None:
            try:
                async with text_file(pipe, "w") as file:
                    await file.write_lines(LINES)
            finally:
                ended.append(os.read(reader, 1))

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                assert ended == []
                reader = os.open(pipe, os.O_RDONLY)  # the thread that opens it goes on

        os.close(reader)
        assert ended == [b""]

    async def test_errors_are_those_of_files(self, tmp_path):
        """
        A missing file, and a disk that takes nothing, raise OSError.
        """
        with pytest.raises(FileNotFoundError):
            await read_bytes(tmp_path / "missing")
        with pytest.raises(OSError, match="No space left"):
            async with text_file("/dev/full", "w") as file:
                await file.write_lines(LINES)


OF_FILES = {"read_text", "read_bytes", "write_text", "write_bytes"}
HELPERS = {"anyio.open_file", "anyio.Path", "anyio.wrap_file"}


def files_elsewhere(source: Source) -> Iterator[Place]:
    """Files of asynchronous code that don't go through the port."""
    if source.path == PORT:
        return
    for node in source.nodes(ast.Import, ast.ImportFrom, ast.Attribute):
        if isinstance(node, ast.Attribute):
            if dotted(node) in HELPERS:
                yield node.lineno, dotted(node)
        elif "aiofiles" in {getattr(node, "module", None), *(each.name for each in node.names)}:
            yield node.lineno, "import aiofiles"
    for function in source.nodes(ast.AsyncFunctionDef):
        for call in _calls(function):
            owner, _, name = call_name(call).rpartition(".")
            if _opens_plainly(call) or (owner and name in OF_FILES):
                yield call.lineno, f"{function.name} calls {call_name(call)}"


def _opens_plainly(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="Path")), attr="open"):
            return True
        case _:
            return call_name(call) in {"open", "io.open", "os.open"}


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of a function itself: functions in it may run in worker threads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from _calls(child)


class TestPort:
    def test_asynchronous_code_reads_and_writes_by_it(self):
        """
        No other module opens aiofiles' or anyio's files; no async function blocks its loop.
        """
        hold(files_elsewhere, sources("actorgraph"))

    @pytest.mark.parametrize(
        "text",
        [
            "import aiofiles",
            "from aiofiles import open",
            "file = anyio.Path('a')",
            "async def f():\n    with open('a') as file:\n        pass",
            "async def f():\n    with Path('a').open() as file:\n        pass",
            "async def f(path):\n    return path.read_bytes()",
        ],
    )
    def test_another_way_is_found(self, text):
        """
        The rule sees imports, anyio's files, and plain ones in async functions.
        """
        assert list(files_elsewhere(snippet(text)))

    @pytest.mark.parametrize(
        "text",
        [
            "def f(path):\n    return path.read_bytes()",
            "async def f(path):\n    return await in_thread(lambda: path.read_bytes())",
            "async def f(self):\n    self.gate.open()",
        ],
    )
    def test_other_code_is_not_found(self, text):
        """
        Plain functions, what they do in a thread, and gates are fine.
        """
        assert list(files_elsewhere(snippet(text))) == []

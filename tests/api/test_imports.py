"""Cost of a program's start: the imports that it uses."""

import subprocess
import sys

DRIVERS = ("sqlite3", "aiosqlite", "aiofiles", "psycopg", "trio", "pydantic", "numpy", "starlette")


def test_a_graph_in_memory_imports_no_driver():
    """
    A program that keeps its threads in memory runs a graph without importing any driver or extra.
    """
    program = (
        "import sys, anyio\n"
        "from actorgraph import InMemorySaver, StateGraph\n"
        "graph = StateGraph(dict).add_node('a', lambda s: {'x': 1}).set_entry_point('a')\n"
        "config = {'configurable': {'thread_id': 't'}}\n"
        "anyio.run(graph.compile(checkpointer=InMemorySaver()).ainvoke, {}, config)\n"
        f"print(sorted(sys.modules.keys() & set({DRIVERS!r})))\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout == "[]\n", ran.stderr


def test_the_root_imports_no_module_of_public_names():
    """
    `import actorgraph` loads none of the modules that only re-export: a program pays for those
    that it imports itself.
    """
    modules = ("types", "graph", "functional", "streams", "checkpoints", "systems")
    program = (
        "import sys, actorgraph\n"
        f"print([n for n in {modules!r} if f'actorgraph.{{n}}' in sys.modules])\n"
    )
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout == "[]\n", ran.stderr

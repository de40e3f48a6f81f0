"""Forks of a warm Python are like processes that were just started."""

import signal
import subprocess
import sys

import pytest

from tests.support.source_files import ROOT
from tests.support.stopped_processes import stop
from tests.support.warm_processes import popen, run

SLEEPS = ["-c", "import time; print('here', flush=True); time.sleep(60)"]


def test_a_program_has_its_arguments_and_streams(tmp_path):
    """
    Arguments, standard input, folder, variables, output, errors and exit status are its own.
    """
    program = (
        "import os, sys\n"
        "print(sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ, __name__)\n"
        "sys.exit('wrong')\n"
    )
    with popen(
        ["-c", program, 1, "b"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={"A": "x"},
    ) as process:
        output, errors = process.communicate("given", timeout=60)

    assert output == f"['1', 'b'] given {tmp_path} environ({{'A': 'x'}}) __main__\n"
    assert (errors, process.returncode) == ("wrong\n", 1)


def test_a_module_and_a_script_are_found_as_by_python(tmp_path):
    """
    A module is looked for in the process's folder, and what a script imports beside the script.
    """
    (tmp_path / "beside.py").write_text("print('beside')")
    (tmp_path / "script.py").write_text("import beside, sys; print(sys.argv)")

    assert run(["-m", "beside"], cwd=tmp_path, check=True).stdout == "beside\n"
    done = run([tmp_path / "script.py", "a"], cwd=ROOT, check=True)
    assert done.stdout == f"beside\n['{tmp_path / 'script.py'}', 'a']\n"


def test_threads_and_exit_functions_end_as_in_python():
    """
    A thread that still works is waited for, then the functions of `atexit` are called.
    """
    program = (
        "import atexit, threading\n"
        "begin, work = threading.Event(), []\n"
        "atexit.register(lambda: print('exit', *work))\n"
        "def late():\n"
        "    begin.wait()\n"
        "    work.append('late')\n"
        "threading.Thread(target=late).start()\n"
        "threading.Timer(0.05, begin.set).start()\n"
    )

    assert run(["-c", program], check=True).stdout == "exit late\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number):
    """
    The exit status is the signal's, after a stop and a continuation too.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with popen(SLEEPS, **pipes) as process:
        assert process.stdout.readline() == "here\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)
        stop(process)
        assert process.poll() is None
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)

        assert process.wait(60) == -number
    assert process.poll() == -number


def test_its_imports_are_there():
    """
    The program runs on the same Python, with modules that it need not import itself.
    """
    program = "import sys; print(sys.executable, 'actorgraph' in sys.modules)"

    assert run(["-c", program], check=True).stdout == f"{sys.executable} True\n"

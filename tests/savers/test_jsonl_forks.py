"""The lock of a folder of JSON lines when its process has forked."""

import subprocess
import sys

from actorgraph.savers.jsonl.files import Files
from actorgraph.savers.jsonl.folder import acquire_folder, release_folder

PROGRAM = """
import os, signal, sys
from actorgraph.savers.jsonl.files import Files
from actorgraph.savers.jsonl.folder import acquire_folder, release_folder

folder = acquire_folder(sys.argv[1], Files())
reading, writing = os.pipe()
if not os.fork():
    os.close(1)
    os.write(writing, b"forked")
    sys.stdin.read()  # until the test ends it
    os._exit(0)
os.read(reading, 6)
if sys.argv[2] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
release_folder(folder)
release_folder(acquire_folder(sys.argv[1], Files()))
print("again", flush=True)
os._exit(0)
"""


def forking(path, how):
    """A process that opens a folder, forks, and then ends; its child lives on."""
    command = [sys.executable, "-c", PROGRAM, path, how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_folder_that_is_closed_can_be_opened_again(tmp_path):
    """
    A child that was forked while a folder was open does not keep it locked.
    """
    with forking(tmp_path, "closes") as process:
        assert process.stdout.readline() == "again\n"


def test_a_folder_whose_process_was_killed_can_be_opened(tmp_path):
    """
    A folder is free once the process that had it open is dead, though a child of that one lives.
    """
    with forking(tmp_path, "dies") as process:
        process.wait(30)

        release_folder(acquire_folder(str(tmp_path), Files()))

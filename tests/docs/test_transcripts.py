"""The tutorial and the how-tos, followed to the letter.

A block with a title is a file: it is written under that name. A `console` block is typed into a
shell, command by command, and each command must print what the page shows (tests/docs/shell.py).
Blocks of `sh` are for reading only: installation, and commands of other machines. So are parts of
the source's examples, whose titles begin with `examples/`.

    ```python title="count.py"          ```console
    print(1 + 1)                        $ python count.py
    ```                                 2
                                        ```

A command that fails on purpose is in a block marked `console fails`.
"""

import socket
from contextlib import ExitStack

import pytest

from tests.docs.blocks import blocks
from tests.docs.shell import Shell, pattern
from tests.support.source_files import ROOT

PAGES = [
    page
    for page in (
        ROOT / "README.md",
        ROOT / "docs" / "tutorial.md",
        ROOT / "docs" / "cli.md",
        *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    )
    if any(b.info.startswith("console") for b in blocks(page.read_text("utf-8")))
]
DATABASE = "postgresql://localhost/app"
MODEL = "http://localhost:11434/v1"
PORT = "8000"


def commands(lines):
    """The commands of a transcript, each with the output that follows it."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return found


def free_port():
    """A port that another program may take in between; the chance is small."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def weather(messages):
    """The replies of the model that pages ask for the weather."""
    if messages[-1]["role"] == "tool":
        return f"It is {messages[-1]['content']}."
    return [("weather", {"city": "Rome"})]


def replaced(text, request, servers):
    """Texts of a page that mean another machine: its port, its database, its model."""
    found = {}
    if PORT in text:
        found[PORT] = free_port()
    if DATABASE in text:
        found[DATABASE] = request.getfixturevalue("postgres").url
    if MODEL in text:
        from agents.fake_model import FakeModel

        found[MODEL] = servers.enter_context(FakeModel(weather)).url
    return found


def follow(text, folder, replacements):
    """Write the files of a page and run its commands, in their order."""
    with Shell(folder, replacements) as shell:
        for block in blocks(text):
            body = "\n".join(block.lines) + "\n"
            if block.title and not block.title.startswith("examples/"):
                (folder / block.title).write_text(body, "utf-8")
            elif block.info.split()[:1] == ["console"]:
                for command, shown in commands(block.lines):
                    shell.run(command, shown, fails="fails" in block.info)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_can_be_followed(page, tmp_path, request):
    """
    A reader who writes the files and types the commands sees what the page shows.
    """
    text = page.read_text("utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()

    with ExitStack() as servers:
        follow(text, folder, replaced(text, request, servers))


class TestShell:
    def test_three_dots_are_any_text(self):
        """
        In a line they match the rest of the line, alone any number of lines.
        """
        shown = pattern(["process ...", "...", "end"])

        assert shown.fullmatch("process 12\nend\n")
        assert shown.fullmatch("process 12\na\nb\nend\n\n")
        assert not shown.fullmatch("process 12\na\n")

    @pytest.mark.parametrize(
        ("command", "shown"), [("echo b", ["a"]), ("false", []), ("echo a; echo b", ["a"])]
    )
    def test_other_output_and_failures_are_found(self, tmp_path, command, shown):
        """
        Output that differs, output that is not shown and an exit code are each an error.
        """
        (tmp_path / "a").mkdir()
        with Shell(tmp_path / "a", {}) as shell, pytest.raises(AssertionError, match=r"found|exit"):
            shell.run(command, shown)

    def test_a_program_in_the_background_can_be_killed(self, tmp_path):
        """
        The next command is typed once the output of the program has appeared.
        """
        (tmp_path / "a").mkdir()
        with Shell(tmp_path / "a", {}) as shell:
            shell.run("(echo ready; exec sleep 60) &", ["ready"])
            shell.run("kill -9 $!", [])
            shell.run("wait $!; echo $?", ["137"])

"""Pictures of the explanation pages, drawn by the library: `python -m tests.support.site.pictures`.

Each is a graph as `DrawableGraph` draws one. On the forge a page shows the file, which follows the
system's colours; on the site `shown_inline` puts the drawing into the page, so that it follows the
colours that the reader chose there.
"""

import re
from collections.abc import Callable
from html import escape
from pathlib import PurePosixPath
from posixpath import join, normpath

from actorgraph.drawing.shape import DrawnEdge, DrawnNode
from actorgraph.graph import DrawableGraph
from tests.support.source_files import ROOT

FOLDER = ROOT / "docs" / "pictures"
IMAGE = re.compile(r"^!\[(?P<words>[^\]]*)\]\((?P<path>[^)\s]+\.svg)\)$", re.MULTILINE)
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


def drawn(*edges: str) -> str:
    """Draw edges: `a -> b`, dashed `a .. b`, with a label `a -> b | label`.

    `frame:name` is a node inside of a frame, `name#2` another one with the same name.
    """
    nodes: dict[str, DrawnNode] = {}
    lines = []
    for edge in edges:
        ends, _, label = edge.partition(" | ")
        source, mark, target = re.split(r" (->|\.\.) ", ends)
        for end in (source, target):
            nodes.setdefault(end, DrawnNode(end, end.rpartition(":")[2].partition("#")[0]))
        lines.append(DrawnEdge(source, target, label or None, conditional=mark == ".."))
    return DrawableGraph(nodes, lines).draw_svg()


def supersteps() -> str:
    """A run: what is due runs at once, then the state is saved, then the next superstep begins."""
    return drawn(
        "input -> plan | superstep 1",
        "plan -> checkpoint 1",
        "checkpoint 1 -> search | superstep 2",
        "checkpoint 1 -> read | superstep 2",
        "search -> checkpoint 2",
        "read -> checkpoint 2",
        "checkpoint 2 -> write | superstep 3",
        "write -> checkpoint 3",
        "checkpoint 3 -> result",
    )


def durability() -> str:
    """The three modes: when a superstep may begin, and when the call returns."""
    return drawn(
        "sync -> step 1#s",
        "step 1#s -> save 1#s",
        "save 1#s -> step 2#s",
        "step 2#s -> save 2#s",
        "save 2#s -> return#s",
        "async -> step 1#a",
        "step 1#a -> step 2#a",
        "step 1#a .. save 1#a",
        "step 2#a .. save 2#a",
        "save 1#a -> save 2#a",
        "step 2#a -> return#a",
        "save 2#a -> return#a",
        "exit -> step 1#e",
        "step 1#e -> step 2#e",
        "step 2#e -> save#e",
        "save#e -> return#e",
    )


def fork() -> str:
    """Time travel: a fork continues from an old checkpoint, and the old branch stays."""
    return drawn(
        "input -> checkpoint 1",
        "checkpoint 1 -> checkpoint 2 | plan",
        "checkpoint 2 -> checkpoint 3 | search",
        "checkpoint 3 -> checkpoint 4 | write",
        "checkpoint 2 .. checkpoint 2, edited | update_state",
        "checkpoint 2, edited -> checkpoint 3, again | search",
        "checkpoint 3, again -> checkpoint 4, again | write",
    )


def actors() -> str:
    """The messages between actors: one supervisor per run, one persistence actor per saver."""
    return drawn(
        "invoke, astream -> supervisor | input",
        "supervisor -> node actor 1 | task",
        "supervisor -> node actor 2 | task",
        "node actor 1 .. superstep/ (pure) | result",
        "node actor 2 .. superstep/ (pure) | result",
        "superstep/ (pure) .. supervisor | effects",
        "supervisor -> persistence | saves",
        "persistence -> saver | one transaction",
        "supervisor -> broadcast | chunks",
        "broadcast -> readers of the stream",
    )


def takeover() -> str:
    """A process dies: its lease runs out, and another process continues its runs."""
    return drawn(
        "process A:run starts -> process A:step 1 saved",
        "process A:step 1 saved -> process A:kill -9",
        "process A:kill -9 .. lease runs out",
        "lease runs out -> process B:claims the thread",
        "process B:claims the thread -> process B:reads step 1",
        "process B:reads step 1 -> process B:runs step 2",
        "process B:runs step 2 -> process B:result",
        "process A:kill -9 .. late save of A | A was only slow",
        "late save of A -> ConflictError | refused",
    )


def alarms() -> str:
    """A question with times: the row, the alarm beside it, and who answers."""
    return drawn(
        "node: interrupt(due=) -> one commit",
        "one commit -> row: the question",
        "one commit -> alarm: when to look",
        "alarm: when to look .. system that takes it | its time has come",
        "system that takes it -> escalate() | it reminds",
        "escalate() .. row: it has reminded",
        "row: it has reminded .. alarm: when to look | set anew",
        "system that takes it -> run with the answer | it is due",
        "a person -> run with the answer | comes first",
        "run with the answer -> node goes on | one of them wins, by the id",
    )


PICTURES: dict[str, Callable[[], str]] = {
    "supersteps": supersteps,
    "durability": durability,
    "fork": fork,
    "actors": actors,
    "takeover": takeover,
    "alarms": alarms,
}
"""Name of the file -> what draws it."""


def shown_inline(text: str, page: str) -> str:
    """Put the drawings that a page shows into it, without their style: the site has it."""

    def inline(found: "re.Match[str]") -> str:
        path = normpath(join(PurePosixPath(page).parent.as_posix(), found["path"]))
        file = ROOT / "docs" / path
        if not file.is_relative_to(FOLDER):
            return found[0]
        svg = STYLE.sub("", file.read_text("utf-8")).replace("\n", "")
        name = file.stem
        svg = svg.replace("ag-end", f"ag-end-{name}").replace(' tabindex="0"', "")
        svg = svg.replace('role="group"', f'role="img" aria-label="{escape(found["words"])}"')
        return f'<div class="ag-picture">{svg}</div>'

    return IMAGE.sub(inline, text)


def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), "utf-8")
        print(f"wrote {FOLDER / name}.svg")


if __name__ == "__main__":
    main()

"""Every command of `actorgraph`, asked about one client while another one's rows are damaged."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from actorgraph.cli.command_line import command_group, main
from tests.web.bad_places import BadPlace
from tests.web.bad_site import GOOD, graphs, mentions, without

log, ask, late = (graphs()[name] for name in ("log", "ask", "late"))
"""For --graph."""

NOT_ASKED = {
    "graph": "it opens no database",
    "codemod": "as above",
    "migrate": "it reads another library's database",
    "serve": "its routes are asked by themselves",
    "studio": "its pages are asked by themselves",
}
_SELF = str(Path(__file__))
_VALUES = json.dumps({"log": ["u"]})
QUESTIONS: list[list[str]] = [
    ["threads", "--limit", "100"],
    ["threads", "--status", "waiting"],
    ["threads", "--graph", f"{_SELF}:log"],
    ["show", GOOD],
    ["show", f"{GOOD}-ask", "--graph", f"{_SELF}:ask"],
    ["history", GOOD],
    ["diff", GOOD, "0", "1"],
    ["tail", GOOD],
    ["top", "--once"],
    ["doctor"],
    ["check", f"{_SELF}:log"],
    ["backup", "COPY"],
    ["history", GOOD, "--db", "COPY"],
    ["export", "-o", "OUT"],
    ["export", "--thread", GOOD, "-o", "ONE"],
    ["import", "WHOLE"],
    ["fork", GOOD, "1", "--to", "new", "--graph", f"{_SELF}:log"],
    ["update", GOOD, _VALUES, "--graph", f"{_SELF}:log"],
    ["cancel", f"{GOOD}-due"],
    ["retry", "--parked"],
    ["show", f"{GOOD}-late"],
    ["run", f"{_SELF}:log", "--input", _VALUES, "--thread", "new2"],
    ["resume", f"{GOOD}-ask", "--answer", '"yes"', "--graph", f"{_SELF}:ask"],
    ["prune", "--keep-last", "1", "--dry-run"],
    ["prune", "--keep-last", "1", "--yes", "--vacuum"],
    ["history", GOOD, "--limit", "9"],
]
"""Reads first; the last ones remove. Names in capitals are of new files."""
OF_MANY = ("threads", "export", "prune", "check", "retry", "doctor")
"""They may fail for what is damaged, if they name it."""
COUNTS = {
    *(
        "age_s",
        "duration_s",
        "steps_per_s",
        "lag_s",
        "place",
        "path",
        "queued",
        "graphs",
        "systems",
    ),
    *("removed", "freed", "bytes", "left", "findings", "retried", "refused", "waiting", "groups"),
    *("cures", "ended", "running", "other_graphs", "settings", "refused_settings"),
}
"""Keys of what is of all threads, or differs each time."""
_LOGGED = re.compile(r"^\d{4}-\d\d-\d\d .*\n?", re.MULTILINE)


class Said(NamedTuple):
    """The end of a command.

    Attributes:
        of_good: what it prints and writes, without what is said of the bad.
        text: all of that.
    """

    code: int
    of_good: Any
    text: str


class Commands:
    """Calls all commands on a place's saver.

    Args:
        folder: for new files.
        names: ids of the damaged.
    """

    def __init__(self, place: BadPlace, folder: Path, names: set[str]) -> None:
        self.db, self.names, self._folder = place.address, names, folder
        self._file("WHOLE").unlink(missing_ok=True)
        self.call(["export", "--thread", GOOD, "-o", "WHOLE"])

    def everything(self) -> dict[str, Said]:
        """Call each; words -> its end."""
        for name in ("COPY", "OUT", "ONE"):
            self._file(name).unlink(missing_ok=True)
        return {" ".join(words[:4]): self.call(words) for words in QUESTIONS}

    def call(self, words: list[str]) -> Said:
        """Call a command of the program's in this process."""
        given = [str(self._file(w)) if w in ("COPY", "OUT", "ONE", "WHOLE") else w for w in words]
        given += ["--json"] + ([] if "--db" in words else ["--db", self.db])
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(given)
        text = _LOGGED.sub("", out.getvalue())
        if words[0] == "export" and self._file(words[-1]).exists():
            text += self._file(words[-1]).read_text("utf-8")
        found = [] if words[0] == "doctor" else [_settled(one) for one in _objects(text)]
        return Said(code, without(found, self.is_bad), text + err.getvalue())

    def is_bad(self, value: Any) -> bool:
        return mentions(value, self.names)

    def _file(self, name: str) -> Path:
        return self._folder / name.lower()


def differences(found: dict[str, Said], before: dict[str, Said], commands: Commands) -> list[str]:
    """The commands that say something else of the good; or that fail and don't name the bad."""
    wrong: list[str] = []
    for words, said in found.items():
        known = before[words]
        if said.of_good != known.of_good:
            wrong.append(f"{words}: {said.text[-300:]!r} instead of {known.of_good!r:.300}")
        elif said.code != known.code:
            named = commands.is_bad(said.text)
            if said.code != 1 or not named or not words.startswith(OF_MANY):
                wrong.append(f"{words}: {said.code}, {said.text[-300:]!r}")
    return wrong


def not_asked() -> set[str]:
    """The commands of the program that are neither asked nor left out for a reason."""
    names = {command.name for command in command_group().registered_commands}
    return names - {words[0] for words in QUESTIONS} - set(NOT_ASKED)


def _objects(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        else:
            found, at = decoder.raw_decode(text, at)
            yield found


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        counted = {k for k in ("threads", "checkpoints") if isinstance(value.get(k), int)}
        kept = {k: v for k, v in value.items() if k not in COUNTS | counted}
        return {k: _settled(v) for k, v in kept.items() if k != "actorgraph_checkpoints"}
    return [_settled(one) for one in value] if isinstance(value, list) else value

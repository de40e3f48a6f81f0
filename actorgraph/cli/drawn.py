"""The text of results, drawn by rich: states of threads, histories, differences, questions."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from actorgraph.cli.printed import (
    CheckpointLine,
    OpenQuestion,
    RunInfo,
    StateDiff,
    ThreadHistory,
    ThreadList,
    ThreadShown,
)
from actorgraph.cli.visible_text import visible
from actorgraph.internals import PHASE_TEXT
from actorgraph.web.http.question_words import Times, times_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

STYLES = {
    "idle": "green",
    "done": "green",
    "busy": "cyan",
    "running": "cyan",
    "interrupted": "yellow",
    "waiting": "yellow",
    "sleeping": "blue",
    "cut_off": "red",
    "parked": "red",
    "unfinished": "magenta",
    "ended": "green",
    "error": "red",
    "failed": "red",
    "cancelled": "magenta",
    "queued": "blue",
    "added": "green",
    "changed": "yellow",
    "removed": "red",
}
"""Status -> rich's style; every status is also a word, for readers without colours."""

VALUE_MAX = 2_000
"""Characters of a value that are shown; `--json` has all of them."""


def styled(status: str) -> "Text":
    """Return a status or a phase as text with its colour."""
    from rich.text import Text

    return Text(PHASE_TEXT.get(status, status), style=STYLES.get(status, ""))


def compact(value: Any, most: int = VALUE_MAX) -> str:
    """Return plain data as JSON in one line, a bare text without quotes, cut to a length."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = visible(text)
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def moment(text: str) -> str:
    """Return an ISO 8601 time to the second, in UTC."""
    return text[:19].replace("T", " ")


AGES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
"""Seconds of a unit, and its name."""


def age_text(seconds: float | None) -> str:
    """Return an age in the largest unit that it fills; "" if it isn't known."""
    if seconds is None:
        return ""
    size, unit = next((one for one in AGES if seconds >= one[0]), AGES[-1])
    return f"{int(seconds // size)} {unit}"


def time_of_day(text: str) -> str:
    """Return the UTC hours, minutes and seconds of an ISO 8601 time; now without one."""
    return (text or datetime.now(UTC).isoformat())[11:19]


def table_of(*columns: str) -> "Table":
    """Make a table without lines; its last column takes the rest of the width, on one line."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns[:-1]:
        table.add_column(name, overflow="fold")
    table.add_column(columns[-1], no_wrap=True, overflow="ellipsis")
    return table


def add_rows(table: "Table", rows: Sequence[Sequence["str | Text"]], width: int) -> None:
    """Add rows whose last cell is cut to the width that the others leave, and never less than 12.

    rich alone would shrink all columns, so that a long last cell hides the first ones.
    """
    if not rows:
        return
    gap = 3 if table.box else 2
    titles = [str(column.header) for column in table.columns]
    before = [
        max(len(titles[at]), *(len(row[at]) for row in rows)) for at in range(len(titles) - 1)
    ]
    left = max(12, width - sum(before) - gap * len(before))
    for *cells, last in rows:
        cut = last if isinstance(last, str) else last.copy()
        if isinstance(cut, str):
            cut = cut if len(cut) <= left else f"{cut[: left - 1]}…"
        else:
            cut.truncate(left, overflow="ellipsis")
        table.add_row(*cells, cut)


def draw_threads(out: "Console", found: ThreadList) -> None:
    """Draw a list of threads."""
    if not found.threads:
        out.print("No thread matches.")
        return
    table = table_of("thread", "status", "age", "step", "updated (UTC)", "next")
    rows = [
        (
            visible(row.thread_id),
            styled(row.phase),
            age_text(row.age_s),
            str(row.step),
            moment(row.updated_at),
            visible(row.error.partition("\n")[0] or ", ".join(row.next)),
        )
        for row in found.threads
    ]
    add_rows(table, rows, out.width)
    out.print(table)
    if found.more:
        out.print("\nThere are more: raise --limit, or narrow down by --status or --prefix.")


def draw_waiting(out: "Console", found: ThreadList) -> None:
    """Draw a list of threads that wait, with what their questions do by themselves."""
    if not found.threads:
        out.print("No thread waits.")
        return
    table = table_of("thread", "asks", "status", "age", "by itself")
    rows = [
        (
            visible(row.thread_id),
            visible(", ".join(row.next)),
            styled(row.phase),
            age_text(row.age_s),
            by_itself(row.times),
        )
        for row in found.threads
    ]
    add_rows(table, rows, out.width)
    out.print(table)
    if found.more:
        out.print("\nThere are more: raise --limit, or narrow down by --prefix.")


def by_itself(times: Times | None) -> str:
    """Say what open questions do when nobody answers; "" for nothing."""
    return times_text(times, datetime.now(UTC), age_text)


def draw_state(out: "Console", found: ThreadShown) -> None:
    """Draw the state of a thread."""
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("thread", visible(found.thread_id))
    outside = found.phase == "running" and found.run is None
    hint = OUTSIDE if outside else HINTS.get(found.phase, "")
    facts.add_row("status", styled(found.phase).append(hint))
    old = f", {age_text(found.age_s)} ago" if found.age_s is not None else ""
    facts.add_row("step", f"{found.step}, {moment(found.updated_at)} UTC{old}")
    facts.add_row("checkpoint", found.checkpoint_id)
    facts.add_row("next", visible(", ".join(found.next)) or "nothing: the thread is at its end")
    if found.metadata:
        facts.add_row("metadata", compact(found.metadata))
    if found.run is not None:
        facts.add_row("run", run_text(found.run))
    out.print(facts)
    out.print(Text("\nvalues", style="bold"))
    out.print(values_table(found.values))
    for failure in found.failures:
        out.print(
            Text.assemble(
                "\n", (f"{visible(failure.node)} failed: ", "red"), compact(failure.error)
            )
        )
    draw_questions(out, found.questions)


HINTS = {
    "cut_off": ": its run has not left, and its process has died or has long been silent",
    "parked": ": `actorgraph retry --parked` runs it again",
}
"""Phase -> its meaning, behind its name."""
OUTSIDE = ": outside of a system, so it counts as cut off once its last save is 5 minutes old"


def run_text(run: RunInfo) -> str:
    """Describe a run in one line."""
    lease = "" if run.alive or run.status not in ("running", "pending") else ", its process is gone"
    why = f": {visible(run.reason)}" if run.reason else ""
    return f"{run.run_id} of {run.graph}: {run.status}{lease}{why}"


def values_table(values: Any) -> "Table":
    """Return a state as rows of key and value."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    rows = values if isinstance(values, Mapping) else {"state": values}
    for key, value in rows.items():
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for at, item in enumerate(value):
                table.add_row(visible(f"{key}[{at}]"), compact(_message(item)))
        else:
            table.add_row(visible(str(key)), compact(value))
    if not rows:
        table.add_row("(empty)", "")
    return table


def _message(item: Any) -> Any:
    """Shorten a chat message to its role and its text; any other value stays."""
    if (
        isinstance(item, Mapping)
        and {"type", "content"} <= item.keys()
        and not item.get("tool_calls")
    ):
        return f"{item['type']}: {compact(item['content'])}"
    return item


def draw_questions(out: "Console", questions: Sequence[OpenQuestion]) -> None:
    """Draw the open questions of a thread."""
    from rich.text import Text

    for asked in questions:
        does, said = visible(asked.node), by_itself(asked.times)
        if asked.times is not None and asked.times.sleeps:
            out.print(Text.assemble("\n", (f"{does} {said}", "blue"), f"  (id {asked.id})"))
            continue
        out.print(Text.assemble("\n", (f"{does} asks", "yellow"), f"  (id {asked.id})"))
        out.print(Text(f"  {compact(asked.value)}"))
        if said:
            out.print(Text(f"  {said}", style="blue"))
        if asked.response_schema:
            out.print(Text(f"  answer: {compact(asked.response_schema)}", style="dim"))


def draw_history(out: "Console", found: ThreadHistory) -> None:
    """Draw the checkpoints of a thread."""
    table = table_of("step", "checkpoint", "source", "then")
    rows = [
        (str(row.step), row.checkpoint_id, row.source, then_text(row)) for row in found.checkpoints
    ]
    add_rows(table, rows, out.width)
    out.print(table)
    if found.more:
        out.print("\nThere are older ones: raise --limit.")


def then_text(row: CheckpointLine) -> "Text":
    """Describe what follows a checkpoint."""
    from rich.text import Text

    text = Text(visible(", ".join(row.next)) or "the end", style="" if row.next else "dim")
    return Text.assemble(text, " ", styled(row.status)) if row.status else text


def draw_diff(out: "Console", found: StateDiff) -> None:
    """Draw the differences of two states: a line for each side."""
    from rich.text import Text

    out.print(Text(f"--- {found.before}\n+++ {found.after}", style="dim"))
    if not found.changes:
        out.print("The states are equal.")
    for change in found.changes:
        out.print(Text(visible(change.path), style="cyan"))
        if change.kind != "added":
            out.print(Text(f"  - {compact(change.before)}", style="red"))
        if change.kind != "removed":
            out.print(Text(f"  + {compact(change.after)}", style="green"))
    if found.more:
        out.print(f"... and {found.more} more")


def command(*words: str) -> str:
    """Return a command line of `actorgraph`, quoted for a shell."""
    return shlex.join(["actorgraph", *words])

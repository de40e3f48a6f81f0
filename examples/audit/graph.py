"""The audit of one package, as a graph.

    list_files -> measure, once per file, at the same time -> rank -> [review] -> write_report

Receives   {"package": ..., "root": ..., "report": ..., "with_tests": ...}, once per thread
Sends      the package's figures and verdict, as the thread's state; its report, as a file
Invariant  every node gives the same answer when it runs again after a crash.
Ends       with the report written; or waiting in `review` for an answer.
"""

import operator
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from actorgraph import END, START, Send, StateGraph, get_stream_writer, interrupt
from audit.files import WriteText
from audit.ledger import Ledger
from audit.markdown import package_report
from audit.measure import FileMeasure, measure_file
from audit.score import (
    RISK_THRESHOLD,
    Question,
    Ranking,
    Verdict,
    question_about,
    rank_files,
)
from audit.summary import AuditedPackage
from audit.targets import Package, list_sources

# A node returns some of the keys of `Audit`.
Update = dict[str, Any]


class Audit(TypedDict):
    """The state of one package's thread: the input, then what each node adds.

    A key is there once its node has run; a node reads only the keys before its own.
    """

    package: str
    root: str
    report: str
    with_tests: bool
    files: list[str]
    measures: Annotated[list[FileMeasure], operator.add]
    ranking: Ranking
    verdict: Verdict
    written: bool


class MeasureTask(TypedDict):
    """The argument of one `Send`: one file."""

    package: str
    folder: str
    file: str


def input_of(package: Package) -> Update:
    """The input of a package's thread."""
    return {
        "package": package.name,
        "root": package.root.as_posix(),
        "report": f"packages/{package.name}.md",
        "with_tests": package.with_tests,
    }


def package_of(state: Audit, *, waits: bool = False) -> AuditedPackage:
    """A package's part of the reports, from its thread's state once it is ranked."""
    return AuditedPackage(
        name=state["package"],
        report=state["report"],
        measures=state.get("measures", []),
        ranking=state["ranking"],
        verdict=state.get("verdict"),
        waits=waits,
    )


@dataclass(frozen=True, slots=True)
class Tools:
    """Objects of this process that the nodes need, and the state must not hold.

    Args:
        out: the folder of the reports.
        write_text: writes a file on the event loop in use.
        ledger: records each parse.
        parsing: held while a file is measured. Parsing holds the interpreter's lock, so two at
            once aren't faster than one, but the event loop would wait twice as long for its
            turn. And CPython 3.11 now and then raises SystemError when two threads are in
            `ast.parse` at once (gh-106905).
    """

    out: Path
    write_text: WriteText
    ledger: Ledger
    parsing: threading.Lock


def new_tools(out: Path, write_text: WriteText, ledger: Ledger) -> Tools:
    """The tools of one process."""
    return Tools(out, write_text, ledger, threading.Lock())


def list_files(state: Audit) -> Update:
    """Sync, because walking folders blocks: it runs in a worker thread."""
    files = list_sources(Path(state["root"]), with_tests=state["with_tests"])
    return {"files": files}


def fan_out(state: Audit) -> str | Sequence[Send]:
    """One task per file; the reducer of `measures` puts their answers back in this order."""
    folder = Path(state["root"]).parent.as_posix()
    tasks = [
        Send("measure", MeasureTask(package=state["package"], folder=folder, file=file))
        for file in state["files"]
    ]
    return tasks or "rank"


async def rank(state: Audit) -> Update:
    """Weigh the package."""
    return {"ranking": rank_files(state.get("measures", []))}


def needs_review(state: Audit) -> str:
    """Only a package above the threshold is worth a reviewer's time."""
    return "review" if state["ranking"]["risk"] >= RISK_THRESHOLD else "write_report"


async def review(state: Audit) -> Update:
    """Wait for a reviewer, for a moment or for a week: nothing of this thread stays in memory."""
    question: Question = question_about(state["package"], state["ranking"])
    return {"verdict": interrupt(question)}


def build_graph(tools: Tools) -> StateGraph:
    """The graph, still to be compiled with a saver."""

    def measure(task: MeasureTask) -> Update:
        """Sync, because `ast` computes: it runs in a worker thread."""
        file = task["file"]
        with tools.parsing:
            get_stream_writer()({"parsing": file})
            tools.ledger.start(task["package"], file)
            figures = measure_file(Path(task["folder"], file), file)
            tools.ledger.done(task["package"], file)
        return {"measures": [figures]}

    async def write_report(state: Audit) -> Update:
        """Written before its checkpoint: after a crash in between, the same text again."""
        await tools.write_text(tools.out / state["report"], package_report(package_of(state)))
        return {"written": True}

    builder = StateGraph(Audit)
    builder.add_node("list_files", list_files)
    builder.add_node("measure", measure, input_schema=MeasureTask)
    builder.add_node("rank", rank)
    builder.add_node("review", review)
    builder.add_node("write_report", write_report)
    builder.add_edge(START, "list_files")
    builder.add_conditional_edges("list_files", fan_out, ["measure", "rank"])
    builder.add_edge("measure", "rank")
    builder.add_conditional_edges("rank", needs_review, ["review", "write_report"])
    builder.add_edge("review", "write_report")
    builder.add_edge("write_report", END)
    return builder

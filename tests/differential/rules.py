"""The rules that detect the allowed differences of allowed.toml.

A rule looks at a spec and the two traces and says up to where they must be equal: `(turn, parts)`,
where of that turn only these parts are still compared and of later turns nothing; None where it has
nothing to excuse. A rule that has taken away what may differ, and leaves all else to be compared,
says a turn behind the last one.
"""

import tomllib
from pathlib import Path
from typing import Any

from tests.differential import spec_rules
from tests.differential.trace import Cut, Rule, Spec, Trace

ALLOWED = Path(__file__).with_name("allowed.toml")


def a_branch_raised(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """The same error, and then LangGraph counts the task as finished."""
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        if here["outcome"].get("error") == there["outcome"].get("error") == "BranchError":
            return turn, ("outcome",)
    return None


def a_join_saved_too_late(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """In exit mode LangGraph's paused thread has the target of a join due, and this one not."""
    joined = {target for source, target in spec["edges"] if isinstance(source, list)}
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        more = {*there["state"].get("next", ())} - {*here["state"].get("next", ())}
        if spec["durability"] == "exit" and more & joined and there["state"]["interrupts"]:
            return turn, ()
    return None


def an_answer_used_twice(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """A turn that gave None to a task with some answers, or an answer by id to a nested graph."""
    nested = any("graph" in node for node in spec["nodes"].values())
    for turn, (here, there) in enumerate(zip(ours[1:], theirs[1:], strict=False), 1):
        waiting = theirs[turn - 1]["state"].get("interrupts")
        answered = any(e["given"].startswith("answer") for e in theirs[:turn])
        if there["given"] == "go" and waiting and answered:
            return turn, ()
        other = _asked(here["outcome"]) != _asked(there["outcome"])
        if nested and there["given"] == "answer by id" and other:
            return turn, ()
    return None


def _asked(outcome: dict[str, Any]) -> list[Any]:
    """The questions of a run, whether it was invoked or streamed."""
    streamed = [chunk.get("__interrupt__", ()) for chunk in outcome.get("chunks", ()) if chunk]
    asked = [*outcome.get("interrupts", ()), *(one for some in streamed for one in some)]
    return sorted(asked, key=str)  # in any order, see L115


def a_deferred_node_beside_sends(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """LangGraph's history has a checkpoint whose tasks are a deferred node and a Send."""
    deferred = {name for name, node in spec["nodes"].items() if node.get("defer")}
    for turn, entry in enumerate(theirs):
        for point in [*entry.get("history", ()), entry["state"]]:
            tasks = point.get("tasks", ())
            names = {name for name, kind, *_ in tasks if kind == "__pregel_pull"}
            pushed = any(kind == "__pregel_push" for _, kind, *_ in tasks)
            if pushed and names & deferred:
                return turn, ()
    return None


def questions_in_any_order(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """Sorts the questions of each outcome; those of a state stay, but for nested graphs' ones."""
    nested = {name for name, node in spec["nodes"].items() if "graph" in node}
    for entry in (*ours, *theirs):
        outcome = entry["outcome"]
        for shown in (outcome, *outcome.get("chunks", ()), *outcome.get("updates", ())):
            for key in {"interrupts", "__interrupt__"} & set(shown or ()):
                shown[key] = sorted(shown[key], key=str)
        # Each task's questions come as it asks: among the chunks of one run in any order too.
        for mode in ("chunks", "updates"):
            outcome.get(mode, []).sort(key=asks)
        for state in (entry["state"], *entry.get("history", ())) if nested else ():
            state.get("interrupts", []).sort()
            for _, _, _, asked, _ in state.get("tasks", ()):
                asked.sort()


def asks(chunk: Any) -> tuple[bool, str]:
    """Sorts the chunks with questions behind the others, which keep their order."""
    questions = chunk and chunk.get("__interrupt__")
    return (True, str(questions)) if questions else (False, "")


def stuck_or_longer(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """A conflict is the same error and then a stuck thread; the limit counts supersteps alone.

    LangGraph gives a resume two steps more, and takes an end at the limit for too many steps.
    """
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        errors = {here["outcome"].get("error"), there["outcome"].get("error")}
        if there["outcome"].get("error") == "InvalidUpdateError" and here["state"].get(
            "interrupts"
        ):
            return turn, ()  # told when the superstep ends, not at a pause inside it
        if "InvalidUpdateError" in {there["state"].get("error"), *errors}:
            return turn, ("outcome",)
        limited = "GraphRecursionError" in errors
        ended = here["outcome"].get("error") != "GraphRecursionError"
        if limited and (there["given"] != "input" or ended):
            return turn, ()
    return None


def an_ambiguous_update(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """LangGraph refuses an update without as_node; here it is made."""
    for turn, there in enumerate(theirs):
        if there["given"] == "update" and there["outcome"].get("error") == "InvalidUpdateError":
            return turn, ()
    return None


def a_replay_of_the_head(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """A turn that addressed the newest checkpoint by its id, and gave None."""
    for turn, there in enumerate(theirs):
        if there["given"] == "replay head":
            return turn, ()
    return None


def a_route_to_nowhere(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """Here the run fails and names the node."""
    for turn, here in enumerate(ours):
        if here["outcome"].get("error") == "UnknownTargetError":
            return turn, ()
    return None


def waiting_tasks_are_left_alone(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """Takes over our number of calls where LangGraph's is higher, from an answer by id on."""
    answered = False
    for here, there in zip(ours, theirs, strict=False):
        answered = answered or there["given"] == "answer by id"
        own, other = here.get("calls"), there.get("calls")
        if answered and own is not None and other is not None:
            there["calls"] = {name: min(n, own.get(name, n)) for name, n in other.items()}


def allowed() -> dict[str, dict[str, str]]:
    """The list, as it is in the file."""
    return tomllib.loads(ALLOWED.read_text("utf-8"))


def excuses(spec: Spec, ours: Trace, theirs: Trace) -> dict[str, Cut]:
    """The entries that apply to two traces. Sorts the questions in both, see L115."""
    found: dict[str, Cut] = {}
    for name, entry in allowed().items():
        rule: Rule | None = (
            {**vars(spec_rules), **globals()}[entry["rule"]] if "rule" in entry else None
        )
        cut = rule(spec, ours, theirs) if rule else None
        if cut is not None:
            found[name] = cut
    return found

"""The tables of figures that fault tests print: their heads, and their lines as Markdown."""

from collections.abc import Iterable, Iterator

HEADS = {
    "crash points": "mode | store | event loop | points | wrong | acknowledged: lost, run again "
    "| unreported | acknowledged | finished, not acknowledged, run again",
    "cancelled awaits": "call | store | event loop | awaits | open transactions | locks "
    "| tasks left | changed after the return | acknowledged lost | wrong",
    "cancelled calls": "call | event loop | awaits",
    "left iterators": "iterator | how | event loop | times | objects | tasks | threads",
    "state machine": "store | event loop | sequences | steps | differences",
    "planted bugs": "bug | store | event loop | found as",
    "open calls": "agent | store | event loop | awaits or kills | open calls met | results kept "
    "| invalid histories | invalid states | messages lost | results lost | wrong",
    "kill -9": "store | mode | event loop | kills | acknowledged | lost | run again | wrong",
    "Ctrl-C": "signal, moments | store | mode | points | late | swallowed | other errors "
    "| handler changed | threads left | still claimed | acknowledged lost | wrong "
    "| longest, ms",
    "systems killed": "store | event loop | kills | runs | acknowledged | lost | run again | wrong "
    "| seconds until all have ended",
    "systems stopped": "store | event loop | stops | runs | taken over | wrong "
    "| stale writes accepted",
    "runs that come second": "store | event loop | the other process | runs | refused | success "
    "| wrong | changed after its return",
    "rolling deploys": "store | event loop | runs | open while only the new version lives "
    "| counted as misfits",
    "torn files": "how | event loop | copies | acknowledged lost | wrong",
    "power cuts": "store | states | acknowledged lost | run twice | wrong | refused "
    "| lost without syncs, of 60",
    "PostgreSQL losses": "what | event loop | times | runs | failed | stored twice "
    "| threads with gaps | seconds",
    "poolers": "mode | event loop | round | runs | wrong | seconds",
    "failovers": "replica | work | event loop | rounds | acknowledged | lost | failed | unreadable "
    "| seconds until each process works again: longest",
    "many at once": "what | event loop | figures",
    "SIGTERM under load": "server | times | streams: ended by a drain, by an end, cut | runs "
    "accepted | finished by the next server | acknowledged steps | lost | refused with "
    "Retry-After | refused otherwise | not taken | seconds to the exit: mean, longest",
    "delayed runs": "store | event loop | figures",
    "alarms, crash points": "event loop | points | lost | answered twice | early | reminders lost "
    "| reminded too often | alarms left | reminded again after a crash",
    "alarms, kill -9": "store | event loop | kills | threads | lost | run again | early | effects "
    "| again, not stored | reminders | again",
    "steps in doubt, kill -9": "store | steps | event loop | kills | charges | charged again "
    "| lost",
    "a person against an alarm": "store | event loop | races | won by the person | wrong "
    "| answered twice | went on twice | the person's errors",
    "alarms of several systems": "store | processes | event loop | effects | again | reminders "
    "| again | lost | early | latest, ms",
    "overload": "what | event loop | figures",
    "silent": "what | event loop | figures",
    "canaries": "what | store | mode | event loop | inputs | words found that must not be stored",
    "web": "what | server | figures",
    "OpenAPI": "what | store | figures",
    "runs dispatched to four workers": "event loop and figures",
    "dispatched runs": "what | event loop | figures",
    "ten thousand runs without a system": "event loop and figures",
    "dispatch in large numbers": "figures",
    "removals during runs": "store | event loop | interleavings | runs that ended | refused "
    "| rows after delete | checkpoints that can't be read",
}


def tables_of(figures: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """
    Sort figures into tables.

    Args:
        figures: pairs of a table's name and one of its lines; pairs of other properties are
            left out.

    Returns:
        the name and the lines of each table that has any, heads first, in the order of `HEADS`.
    """
    lines: dict[str, list[str]] = {}
    for table, line in figures:
        lines.setdefault(table, []).append(line)
    for table, head in HEADS.items():
        if table in lines:
            rule = "|---" * (head.count("|") + 1) + "|"
            yield table, [f"| {head} |", rule, *sorted(lines[table])]

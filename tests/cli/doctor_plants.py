"""Facts with one planted mistake each, and the same facts without it, by finding."""

from actorgraph.cli.doctor.facts import (
    CallFact,
    DatabaseFacts,
    Examined,
    GraphFacts,
    InputFacts,
    KeyFact,
    ModuleFacts,
    NodeFacts,
    OpenRunFact,
    ProgramFacts,
    ServedFacts,
    SystemFacts,
    TypeFact,
)
from actorgraph.values.checked_threads import (
    SettingsGroup,
    ThreadCheckReport,
    ThreadGroup,
    ThreadReason,
)
from actorgraph.values.graph_changes import ResumeVerdict

DAY_S = 86_400.0


def call(package, name, *, awaits=False, kind="function"):
    return CallFact(package, name, kind, awaits, "app.py", 7)


def graph(*calls, saves=True, durability="sync", **more):
    node = NodeFacts("chat", "ask", frozenset({"answer"}), calls=calls)
    return program(
        graphs=(GraphFacts("chat", (node,), has_saver=saves, durability=durability, **more),)
    )


def checked(verdict):
    reason = ThreadReason("waits for node 'ask', which graph 'g' doesn't have", "", "rename it")
    reasons = (reason,) if verdict is ResumeVerdict.REFUSED else ()
    group = ThreadGroup(
        "g",
        "g:1",
        verdict,
        waits=True,
        count=2,
        examples=("t1", "t2"),
        migrated=(),
        reasons=reasons,
    )
    return Examined(threads=ThreadCheckReport(2, 2, len(reasons) * 2, (group,), {}))


def stored(verdict):
    reason = ThreadReason("an assistant is stored whose context was for another version", "", "do")
    reasons = (reason,) if verdict is ResumeVerdict.REFUSED else ()
    group = SettingsGroup("assistant", "g", verdict, 2, ("a1", "a2"), reasons)
    return Examined(threads=ThreadCheckReport(0, 0, 0, (), {}, (group,)))


def program(*, backend=None, host="", database=None, **facts):
    return Examined(ProgramFacts("app:app", **facts), database, backend=backend, host=host)


def returning(key):
    node = NodeFacts("chat", "ask", frozenset({"answer"}), returned=(KeyFact(key, "app.py", 9),))
    return program(graphs=(GraphFacts("chat", (node,)),))


def reported(code, node="ask"):
    row = {"code": code, "node": node, "what": "the finding of topology()", "do": "mend it"}
    return graph(report=(row,))


def database(**facts):
    known = {"version": 2, "known_version": 2, "journal": "wal", "filesystem": "ext4"}
    return Examined(database=DatabaseFacts("runs.db", "sqlite", **{**known, **facts}))


def run(**facts):
    known = {"run": "r1", "thread_id": "t", "graph": "chat", "status": "running", "alive": True}
    return OpenRunFact(**{**known, **facts})


def served_over(open_run):
    system = SystemFacts(frozenset({"chat"}), frozenset({"v2"}))
    facts = DatabaseFacts("runs.db", "sqlite", runs=(open_run,))
    return program(systems=(system,), database=facts)


def leased(lease_s):
    return program(systems=(SystemFacts(frozenset({"chat"}), lease_s=lease_s, busy_timeout_s=5),))


def routes(host="", **facts):
    return program(served=(ServedFacts("routes", "/api", **facts),), host=host)


def studio(*hosts, host=""):
    return program(served=(ServedFacts("studio", "/studio", hosts=hosts),), host=host)


def imported(*installed):
    module = ModuleFacts("app.py", imports=(("actorgraph.web.GraphRoutes", 3),))
    return program(modules=(module,), installed=frozenset(installed))


def given(**facts):
    return Examined(given=InputFacts("chat", keys=("answer",), **facts))


SLEEP = call("time", "sleep")
POST = call("requests", "post")
INTERRUPT = call("actorgraph", "interrupt")
ON_TRIO = graph(call("asyncio", "sleep", awaits=True))
IN_ANYIO = graph(call("anyio", "sleep", awaits=True))

PLANTED = {
    "program.not-importable": (program(error="NameError: x"), program()),
    "extra.missing": (imported(), imported("starlette")),
    "node.blocking-call": (graph(SLEEP), IN_ANYIO),
    "node.file-call": (graph(call("io", "open")), graph(call("anyio", "open_file", awaits=True))),
    "node.backend-mismatch": (
        Examined(ON_TRIO.program, backend="trio"),
        Examined(ON_TRIO.program, backend="asyncio"),
    ),
    "node.unknown-key": (returning("anwser"), returning("answer")),
    "graph.unreachable": (reported("unreachable"), graph()),
    "graph.join-never-completes": (reported("join_never_completes"), graph()),
    "graph.join-of-alternatives": (reported("join_of_alternatives"), graph()),
    "graph.no-way-to-end": (reported("no_way_to_end"), graph()),
    "graph.open-route": (reported("open_route"), graph()),
    "graph.no-saver": (graph(INTERRUPT, saves=False), graph(INTERRUPT)),
    "graph.durability-exit": (
        graph(call("httpx", "AsyncClient.post", awaits=True), durability="exit"),
        graph(call("httpx", "AsyncClient.post", awaits=True)),
    ),
    "state.unstorable-type": (
        graph(unstorable=(TypeFact("state.client", "app.Client"),)),
        graph(),
    ),
    "input.unstorable-value": (
        given(unstorable=(("state.items[3].client", "app.Client"),)),
        given(),
    ),
    "input.unknown-key": (given(unknown=("anwser",)), given()),
    "saver.unreachable": (database(error="connection refused", version=None), database()),
    "saver.not-writable": (database(not_writable="this user may not"), database()),
    "saver.old-schema": (database(version=1), database()),
    "saver.new-schema": (database(version=3), database()),
    "saver.not-a-database": (database(version=0), database()),
    "saver.network-filesystem": (database(filesystem="nfs4"), database()),
    "saver.no-wal": (database(journal="delete"), database()),
    "saver.shared-sqlite": (database(living=2), database(living=1)),
    "saver.no-key": (database(unread="unknown key 'k1'"), database()),
    "saver.long-history": (database(lengths={"t": 1_001}), database(lengths={"t": 1_000})),
    "saver.no-retention": (database(oldest_s=31 * DAY_S), database(oldest_s=29 * DAY_S)),
    "runs.unserved": (
        served_over(run(status="pending", build="v1", alive=False, waits=True)),
        served_over(run(status="pending", build="v2", alive=False, waits=True)),
    ),
    "threads.refused": (checked(ResumeVerdict.REFUSED), checked(ResumeVerdict.MIGRATED)),
    "settings.refused": (stored(ResumeVerdict.REFUSED), stored(ResumeVerdict.MIGRATED)),
    "runs.orphaned": (database(runs=(run(alive=False),)), database(runs=(run(),))),
    "runs.parked": (database(runs=(run(status="parked"),)), database(runs=(run(),))),
    "runs.long-open": (database(runs=(run(age_s=2 * DAY_S),)), database(runs=(run(age_s=60),))),
    "lease.too-short": (leased(6), leased(15)),
    "web.no-access-rules": (routes("10.0.0.5", has_rules=False), routes("10.0.0.5")),
    "web.no-rate-limit": (routes(has_rates=False), routes()),
    "web.any-origin": (routes(any_origin=True), routes()),
    "web.studio-hosts": (
        studio("localhost", host="10.0.0.5"),
        studio("studio.example.com", host="10.0.0.5"),
    ),
}
"""Code -> facts with the mistake, facts without it."""

"""`actorgraph serve` and `actorgraph studio`: a system over HTTP, and pages over it."""

import os
from typing import Annotated, Any, Literal

import typer

from actorgraph.cli.command_group import SERVE, Database, group
from actorgraph.cli.exit_codes import UsageError

Backend = Annotated[Literal["asyncio", "trio"], typer.Option(help="The event loop to run on.")]


@group.command("serve", rich_help_panel=SERVE)
def serve(
    name: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="A graph or an ActorSystem.")],
    *,
    db: Database = None,
    host: Annotated[str, typer.Option(help="The address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the port.")] = 1,
    authorize: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="The function authorize=.")
    ] = None,
    authenticate: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="The function authenticate=.")
    ] = None,
    allow_anyone: Annotated[
        bool,
        typer.Option("--allow-anyone", help="Serve other machines without access rules."),
    ] = False,
    backend: Backend = "asyncio",
) -> int | None:
    """Serve LangGraph's REST routes over a graph or a system, until Ctrl-C.

    A graph runs over --db, else over its own saver, else in memory.
    Without --authorize only this machine is served.

    Example: actorgraph serve app:graph --db runs.db --port 8000
    """
    import anyio

    from actorgraph.cli.served_processes import check_workers, is_worker, run_workers, shared_socket
    from actorgraph.web import serve as serve_routes

    system = system_of(name, db)
    rules = {"authorize": authorize, "authenticate": authenticate}
    options = {key: _function(key, given) for key, given in rules.items() if given}
    _check_access(system, host, has_rules="authorize" in options or allow_anyone)
    check_workers(system, workers)
    with shared_socket(host, port) as (bound, descriptor):
        if not is_worker():
            _announce(host, bound, system, workers)
        if workers > 1:
            return run_workers(workers, descriptor)

        async def run() -> None:
            # The rule was held above: the server sees a descriptor, whose address it can't know.
            # A copy of the descriptor, because the server closes the one that it is given.
            bind = f"fd://{os.dup(descriptor)}"
            await serve_routes(system, bind=bind, allow_anyone=True, **options)

        anyio.run(run, backend=backend)
    return None


def _check_access(system: Any, host: str, *, has_rules: bool) -> None:
    """Refuse to serve other machines without access rules.

    Raises:
        UsageError: the address is reachable from other machines, and the system has no rules.
    """
    from actorgraph.web.app import is_local

    has_rules = has_rules or getattr(system, "authorize", None) is not None
    if not has_rules and not is_local(f"[{host}]:0" if ":" in host else f"{host}:0"):
        raise UsageError(
            f"--host {host} is reachable from other machines, and the routes have no access rules",
            do="pass --authorize MODULE:NAME, or --allow-anyone behind a gateway that checks",
        )


def system_of(name: str, db: str | None) -> Any:
    """Import a system, or make one of a graph.

    Raises:
        UsageError: it is neither, or a system is to run over another database than its own.
    """
    from actorgraph.cli.places import codec_in, load_graph, load_object, saver_at
    from actorgraph.systems import ActorSystem

    found, _ = load_object(name)
    if isinstance(found, ActorSystem):
        if db:
            raise UsageError(
                f"{name!r} is a system, which has a saver of its own",
                do="leave out --db (and ACTORGRAPH_DB), or name a graph",
            )
        return found
    graph = load_graph(name)
    saver = saver_at(db, read_only=False, codec=codec_in(graph)) if db else None
    return ActorSystem({name.rpartition(":")[2] or graph.name: graph}, saver=saver)


def _function(option: str, name: str) -> Any:
    from actorgraph.cli.places import load_object

    found, _ = load_object(name)
    if not callable(found):
        raise UsageError(f"--{option} {name!r} is not a function", do="name one: rules:authorize")
    return found


def _announce(host: str, port: int, system: Any, workers: int) -> None:
    from actorgraph.cli.output import note

    graphs = ", ".join(sorted(system.graphs))
    shown = f"[{host}]" if ":" in host else host
    many = f", {workers} workers" if workers > 1 else ""
    note(f"serving {graphs} at http://{shown}:{port}{many}; Ctrl-C ends it")
    if not getattr(system.saver, "durable", True):
        note("threads are kept in memory, and gone with the process: --db runs.db keeps them")


@group.command("studio", rich_help_panel=SERVE)
def studio(
    place: Annotated[str | None, typer.Argument(help="The database; as --db.")] = None,
    *,
    db: Database = None,
    app: Annotated[
        str | None,
        typer.Option(metavar="MODULE:SYSTEM", help="A system, to act and not only read."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8124,
    token: Annotated[
        str | None, typer.Option(envvar="ACTORGRAPH_STUDIO_TOKEN", help="Default: a random one.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name of this server; may be repeated.")
    ] = None,
    backend: Backend = "asyncio",
) -> None:
    """Serve pages over a database or a system: threads, runs, graphs, the store.

    Example: actorgraph studio runs.db
    """
    import anyio

    from actorgraph.studio.__main__ import arguments, main

    database = place or (None if app else db)
    given = [
        *([database] if database else []),
        *(["--app", app] if app else []),
        *("--host", host, "--port", str(port), "--backend", backend),
        *(["--token", token] if token else []),
        *(part for name in allow_host or () for part in ("--allow-host", name)),
    ]
    anyio.run(main, arguments(given), backend=backend)

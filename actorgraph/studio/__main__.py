"""Serve the studio alone: `python -m actorgraph.studio runs.db [--app module:system]`.

Without `--app` it only reads: a SQLite file is opened read-only, and no run is taken over. With it
the application's own system is opened, and every action is possible.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import anyio

from actorgraph.errors import ActorGraphError, InvalidConfigError
from actorgraph.systems import ActorSystem

try:
    from actorgraph.studio.request_guard import LOOPBACK
    from actorgraph.studio.serving import host_shown, serve_pages
    from actorgraph.studio.studio_app import Studio
    from actorgraph.web.app import is_local
    from actorgraph.web.lifespan import running
except ModuleNotFoundError as missing:
    sys.exit(f"the studio needs the package {missing.name}: pip install 'actorgraph[studio]'")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command's arguments."""
    parser = argparse.ArgumentParser("python -m actorgraph.studio", description=__doc__)
    parser.add_argument("database", nargs="?", help="a SQLite file, or postgresql://...")
    parser.add_argument("--app", help="module:name of an ActorSystem, to act and not only read")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to")
    parser.add_argument("--port", type=int, default=8124, help="0 takes a free one")
    parser.add_argument("--token", help="of the printed address; default a random one")
    parser.add_argument("--allow-host", action="append", default=[], help="a name of this server")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    return parser.parse_args(given)


async def main(given: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        InvalidConfigError: an argument is missing or invalid.
    """
    if not is_local(f"{given.host}:{given.port}") and not given.token:
        raise InvalidConfigError(
            f"--host {given.host} is reachable from other machines",
            do="pass --token with a secret of your own, and --allow-host with the server's name",
        )
    token = given.token or token_urlsafe(24)
    hosts = served_hosts(given)
    async with AsyncExitStack() as stack:
        if given.app:
            system = system_named(given.app)
            await stack.enter_async_context(running(system))
            studio = Studio(system, token=token, hosts=hosts, place=given.app)
        elif given.database:
            saver = await stack.enter_async_context(reading(given.database))
            studio = Studio(saver=saver, token=token, hosts=hosts, place=_place(given.database))
        else:
            raise InvalidConfigError(
                "nothing to show", do="name a database, or --app module:system"
            )
        await serve_pages(studio, given.host, given.port, token)


def served_hosts(given: argparse.Namespace) -> list[str]:
    """Return the names that requests may use: this machine's, the printed one, and those given."""
    return [*LOOPBACK, host_shown(given.host), *given.allow_host]


def system_named(name: str) -> ActorSystem:
    """Import the system that an argument names.

    Raises:
        InvalidConfigError: the name is not that of an ActorSystem.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), attribute or "system")
    except (ImportError, AttributeError) as error:
        raise InvalidConfigError(
            f"--app {name!r}: {error}", do="name a module and an ActorSystem in it: app:system"
        ) from error
    if not isinstance(found, ActorSystem):
        raise InvalidConfigError(
            f"--app {name!r} is a {type(found).__name__}", do="name an ActorSystem"
        )
    return found


def reading(database: str) -> Any:
    """Open a saver that only reads.

    Raises:
        InvalidConfigError: the file doesn't exist.
    """
    from actorgraph.checkpoints import PostgresSaver, SqliteSaver

    if database.startswith(("postgresql://", "postgres://")):
        return PostgresSaver(database, read_only=True)
    if not Path(database).is_file():
        raise InvalidConfigError(f"{database!r} doesn't exist", do="name a database that does")
    return SqliteSaver(database, read_only=True)


def _place(database: str) -> str:
    """Return a database's name without a password."""
    if "://" not in database:
        return Path(database).name
    return "PostgreSQL: " + database.rpartition("@")[2].partition("?")[0]


if __name__ == "__main__":
    given = arguments()
    try:
        anyio.run(main, given, backend=given.backend)
    except ActorGraphError as error:
        sys.exit(f"actorgraph studio: {error}")

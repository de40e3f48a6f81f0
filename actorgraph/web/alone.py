"""Serving without another program: hypercorn inside of the running event loop, asyncio or trio."""

import signal
import warnings
from collections.abc import Sequence
from importlib import import_module
from ipaddress import ip_address
from typing import Any

import anyio

from actorgraph.api.system import ActorSystem
from actorgraph.errors import InvalidConfigError, MissingExtraError, UnsafeSettingWarning
from actorgraph.loops import on_trio
from actorgraph.runtime.calls import abandoned
from actorgraph.runtime.log import event
from actorgraph.web.app import rules_of, served


async def serve(
    system: ActorSystem,
    *,
    bind: str | Sequence[str] = "127.0.0.1:8000",
    allow_anyone: bool = False,
    **options: Any,
) -> None:
    """Serve a system's routes until SIGTERM or SIGINT, which drains it.

    Its streams end with a `drain` event, runs finish their superstep and are left to the next
    process's `recover()`, then the server shuts down. If a sync node of a cancelled run is still in
    its thread then, which on asyncio would hold up the interpreter's exit for as long as that
    takes, the process ends by the signal.

    Args:
        bind: "host:port", one or several; port 0 takes a free one.
        allow_anyone: whether to serve without `authorize`, to all who reach an address. Default:
            on addresses of this machine alone, with an `UnsafeSettingWarning`.
        options: of `GraphRoutes`.
    Raises:
        InvalidConfigError: there is no `authorize`, and other machines may reach an address.
        MissingExtraError: hypercorn isn't installed.
    """
    places = [bind] if isinstance(bind, str) else list(bind)
    if not allow_anyone and rules_of(system, options.get("authorize")) is None:
        _refuse_or_warn(places)
    try:
        config: Any = import_module("hypercorn.config").Config()
        server = import_module("hypercorn.trio" if on_trio() else "hypercorn.asyncio")
    except ImportError as error:
        raise MissingExtraError(
            "serve() needs the package hypercorn", do="pip install 'actorgraph[serve]'"
        ) from error
    config.bind = places

    heard: list[signal.Signals] = []

    async def stopped() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                heard.append(number)
                await system.drain()
                return

    await server.serve(served(system, **options), config, shutdown_trigger=stopped, mode="asgi")
    if heard and not on_trio() and (nodes := abandoned()):
        event("error", "server.threads_left", nodes=nodes)
        signal.signal(heard[0], signal.SIG_DFL)
        signal.raise_signal(heard[0])


def _refuse_or_warn(places: Sequence[str]) -> None:
    """Refuse to serve everybody's threads to other machines unasked; warn on this machine's own.

    Raises:
        InvalidConfigError: another machine may reach one of the addresses.
    """
    risk = "without authorize whoever reaches it may read, change and remove every thread"
    do = "pass authorize= and authenticate=, or allow_anyone=True if something in front asks"
    if public := [place for place in places if not is_local(place)]:
        raise InvalidConfigError(f"serve() on {public[0]!r}: {risk}", do=do)
    warnings.warn(f"serve() on {places[0]!r}: {risk}; {do}", UnsafeSettingWarning, stacklevel=3)


def is_local(place: str) -> bool:
    """Whether an address to bind to can be reached from this machine alone.

    Args:
        place: "host:port", "[IPv6]:port", "host" or "unix:path". A name other than "localhost" may
            mean any address, and an inherited socket too.
    """
    if place.startswith("unix:"):
        return True
    host = place.removeprefix("[").partition("]")[0] if place.startswith("[") else place
    if not place.startswith("["):
        host = place.rpartition(":")[0] if ":" in place else place
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""Serve without another program: hypercorn inside the running event loop, asyncio or trio."""

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
from actorgraph.web.app import effective_authorize, served


async def serve(
    system: ActorSystem,
    *,
    bind: str | Sequence[str] = "127.0.0.1:8000",
    allow_anyone: bool = False,
    **options: Any,
) -> None:
    """Serve a system's routes until SIGTERM or SIGINT, which drains it.

    Streams end with a `drain` event, runs finish their superstep and are left to the next
    process's `recover()`, then the server shuts down. If a sync node of a cancelled run still
    occupies its thread then, the process ends by the signal: on asyncio the interpreter would
    otherwise wait for the thread before it exits.

    Args:
        bind: "host:port", one or several; port 0 takes a free one.
        allow_anyone: whether to serve other machines without `authorize`. Default: without
            `authorize` only local addresses are served, with an `UnsafeSettingWarning`.
        options: of `GraphRoutes`.
    Raises:
        InvalidConfigError: without `authorize`, an address is reachable from other machines.
        MissingExtraError: hypercorn isn't installed.
    """
    places = [bind] if isinstance(bind, str) else list(bind)
    if not allow_anyone and effective_authorize(system, options.get("authorize")) is None:
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
    """Refuse to serve other machines without authorization; warn for local addresses.

    Raises:
        InvalidConfigError: an address is reachable from other machines.
    """
    risk = "without authorize every client may read, change and remove every thread"
    do = "pass authorize= and authenticate=, or allow_anyone=True behind a gateway that does it"
    if public := [place for place in places if not is_local(place)]:
        raise InvalidConfigError(f"serve() on {public[0]!r}: {risk}", do=do)
    warnings.warn(f"serve() on {places[0]!r}: {risk}; {do}", UnsafeSettingWarning, stacklevel=3)


def is_local(place: str) -> bool:
    """Whether an address to bind to is reachable from this machine only.

    Args:
        place: "host:port", "[IPv6]:port", "host" or "unix:path". A name other than "localhost" may
            resolve to any address, and so may an inherited socket: False.
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

"""Facts about ASGI applications: the routes and studios in them, their rules and limits.

Starlette's and FastAPI's applications list what they mount, and other frameworks' don't; those
are looked into no further. The web package is looked up in `sys.modules`: a program that serves
anything has imported it.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from actorgraph.cli.doctor.facts import ServedFacts
from actorgraph.systems import ActorSystem

DEPTH_MAX = 10
"""Applications inside one another that are looked into."""


def served_in(app: object) -> Iterator[ServedFacts]:
    """Yield the facts of each GraphRoutes and Studio in an application."""
    for path, found, any_origin in _applications(app):
        kind = type(found).__name__
        if kind == "GraphRoutes":
            server = found.server
            yield ServedFacts(
                kind="routes",
                path=path,
                has_rules=server.access.authorize is not None,
                has_rates=server.limits.requests_per_s is not None,
                any_origin=any_origin,
            )
        else:
            yield ServedFacts(kind="studio", path=path, hosts=found.hosts, any_origin=any_origin)


def systems_in(named: object) -> list[ActorSystem]:
    """Return the systems that an object is or serves."""
    if isinstance(named, ActorSystem):
        return [named]
    found: dict[int, ActorSystem] = {}
    for _, app, _ in _applications(named):
        system = app.server.system if type(app).__name__ == "GraphRoutes" else app.system
        if system is not None:
            found[id(system)] = system
    return list(found.values())


def stores_in(named: object) -> list[tuple[Mapping[str, Any], Any]]:
    """Return `(graphs by name, store)` of the servers and systems that an object is or has.

    A system without a store stores nothing; one in memory has nothing of other processes.
    """
    found: dict[int, tuple[Mapping[str, Any], Any]] = {}
    for _, app, _ in _applications(named):
        if type(app).__name__ == "GraphRoutes":
            found[id(app.server.store)] = app.server.graphs, app.server.store
    if isinstance(named, ActorSystem) and named.store is not None:
        found[id(named.store)] = named.graphs, named.store
    return list(found.values())


def _applications(app: object) -> Iterator[tuple[str, Any, bool]]:
    """Yield `(path, application, whether every origin is allowed)` of routes and studios."""
    left: list[tuple[str, Any, bool, int]] = [("", app, False, 0)]
    seen: set[int] = set()
    while left:
        path, one, every, depth = left.pop()
        if id(one) in seen or depth > DEPTH_MAX:
            continue
        seen.add(id(one))
        if isinstance(one, _ours()):
            yield path, one, every
            continue
        every = every or _allows_every_origin(one)
        for inner, below in _inside(one):
            left.append((path + inner, below, every, depth + 1))


def _ours() -> tuple[type, ...]:
    """Return the classes of this library that serve, if the program has imported them."""
    homes = {"actorgraph.web.app": "GraphRoutes", "actorgraph.studio.studio_app": "Studio"}
    loaded = ((sys.modules.get(module), name) for module, name in homes.items())
    return tuple(getattr(module, name) for module, name in loaded if hasattr(module, name))


def _inside(app: Any) -> Iterator[tuple[str, Any]]:
    """Yield `(path, application)` of what an application mounts, or wraps."""
    for route in getattr(app, "routes", None) or ():
        if (mounted := getattr(route, "app", None)) is not None:
            yield getattr(route, "path", ""), mounted
    for name in ("app", "routed"):
        wrapped = getattr(app, name, None)
        if callable(wrapped):
            yield "", wrapped


def _allows_every_origin(app: Any) -> bool:
    for middleware in getattr(app, "user_middleware", None) or ():
        options = getattr(middleware, "kwargs", None) or getattr(middleware, "options", {})
        origins = options.get("allow_origins", ()) if isinstance(options, dict) else ()
        if "*" in origins or options.get("allow_origin_regex") in (".*", "^.*$"):
            return True
    return False

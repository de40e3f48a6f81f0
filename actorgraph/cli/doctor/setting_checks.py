"""Checks of systems and of web applications. Pure: facts in, findings out."""

from collections.abc import Iterator

from actorgraph.cli.doctor.diagnosis import Diagnosis
from actorgraph.cli.doctor.facts import Examined, ServedFacts

RENEWALS = 3
"""Renewals of a lease in its time."""
RENEWAL_MIN_S = 1.0
"""Seconds between two renewals below which a busy machine misses them."""


def check_leases(facts: Examined) -> Iterator[Diagnosis]:
    """Leases that end while a renewal may still wait, or that are renewed too often."""
    for system in facts.program.systems if facts.program else ():
        if not system.durable:
            continue
        graphs = ", ".join(sorted(system.graphs))
        lease, busy = system.lease_s, system.busy_timeout_s
        beat = lease / RENEWALS
        if busy is not None and lease - beat <= busy:
            text = (
                f"the system of {graphs} has lease_s={lease:g} and renews it every {beat:g} s, and "
                f"its saver waits up to {busy:g} s for a lock: a renewal that waits that long is "
                "too late, and another system takes over its runs"
            )
            do = f"use lease_s={max(15.0, 3 * busy):g} or more, or a smaller busy_timeout_s"
            yield Diagnosis("lease.too-short", "warning", "lease_s", text, do)
        elif beat < RENEWAL_MIN_S:
            text = (
                f"the system of {graphs} has lease_s={lease:g}: a process that stops for that "
                "long, such as a virtual machine that is moved, loses its runs"
            )
            yield Diagnosis(
                "lease.too-short", "warning", "lease_s", text, "use 15, the default, or more"
            )


def check_access(facts: Examined) -> Iterator[Diagnosis]:
    """Applications without access rules."""
    for app in _served(facts):
        if app.has_rules:
            continue
        public = bool(facts.host) and not is_loopback(facts.host)
        where = f", and is served at {facts.host}" if public else ""
        yield Diagnosis(
            "web.no-access-rules",
            "error" if public else "warning",
            app.path or "/",
            f"{_shown(app)} has no access rules{where}: every client that reaches it may read, "
            "change and remove every thread",
            "pass authorize= and authenticate=, or serve it on 127.0.0.1 only",
        )


def check_rates(facts: Examined) -> Iterator[Diagnosis]:
    """Applications without a limit of requests."""
    for app in _served(facts):
        if app.kind == "routes" and not app.has_rates:
            yield Diagnosis(
                "web.no-rate-limit",
                "note",
                app.path or "/",
                f"{_shown(app)} has Limits(requests_per_s=None): one client may send any number "
                "of requests",
                "pass limits=Limits(requests_per_s=20), or limit them in the gateway",
            )


def check_origins(facts: Examined) -> Iterator[Diagnosis]:
    """CORS middleware that allows every site."""
    for app in _served(facts):
        if app.any_origin:
            yield Diagnosis(
                "web.any-origin",
                "warning",
                app.path or "/",
                f'the CORS middleware around {_shown(app)} has allow_origins=["*"]: a page of any '
                "site may call it from a visitor's browser",
                "name the sites: allow_origins=['https://app.example.com']",
            )


def check_hosts(facts: Examined) -> Iterator[Diagnosis]:
    """Studios that don't know the name under which they are served."""
    for app in _served(facts):
        if app.kind != "studio":
            continue
        if "*" in app.hosts:
            text = "has '*' in hosts, which is compared as text: it allows no name"
        elif facts.host and not is_loopback(facts.host) and all(map(is_loopback, app.hosts)):
            text = (
                f"is served at {facts.host} and has no allowed hosts but this machine's: each "
                "request from another machine is answered with 403"
            )
        else:
            continue
        yield Diagnosis(
            "web.studio-hosts",
            "warning",
            app.path or "/",
            f"{_shown(app)} {text}",
            "name the server: Studio(..., hosts=['studio.example.com'])",
        )


def is_loopback(host: str) -> bool:
    """Whether an address to bind to is reachable from this machine only."""
    name = host.strip("[]").lower()
    return name in ("localhost", "::1") or name.startswith("127.")


def _served(facts: Examined) -> tuple[ServedFacts, ...]:
    return facts.program.served if facts.program else ()


def _shown(app: ServedFacts) -> str:
    name = "Studio" if app.kind == "studio" else "GraphRoutes"
    return f"{name} at {app.path or '/'}"

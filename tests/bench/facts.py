"""Facts about the machine that are needed to compare the figures with one's own."""

import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

from tests.bench.runner import Bench


def gather(bench: Bench, load_before: float) -> dict[str, Any]:
    """The machine and the libraries. Call it after the measures: they report the versions."""
    libraries = [
        f"{name} {version}" for found in bench.versions.values() for name, version in found.items()
    ]
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libraries": libraries,
        "backend": f"actorgraph on {bench.backend}, all others on asyncio",
        "collector": _collector(bench),
        "load before": round(load_before, 2),
    }


def _processor() -> str:
    """The processor's name, where the system has it."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor() or "unknown"


def _collector(bench: Bench) -> str:
    """The garbage collector's state at the end of the workers: equal for all, or all of them."""
    states = [f"{'on' if on else 'off'} {tuple(rest)}" for on, *rest in sorted(bench.collectors)]
    return states[0] + " in every process" if len(states) == 1 else "DIFFERS: " + ", ".join(states)

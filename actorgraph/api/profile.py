"""Validate what `compile`, `Pregel`, `@entrypoint` and a call are given besides the graph.

Savers, stores, caches, names and the context. Also the production profile:
`ACTORGRAPH_PROFILE=production` refuses savers that keep checkpoints in memory only.
"""

import os

from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.ports import Saver

VARIABLE = "ACTORGRAPH_PROFILE"
PROFILES = ("development", "production")


def check_profile(saver: object) -> None:
    """Refuse a saver that doesn't outlive the process if the environment sets "production".

    Raises:
        InvalidConfigError: the saver is not durable, or the profile is unknown.
    """
    profile = os.environ.get(VARIABLE, "")
    if profile in {"", "development"} or not isinstance(saver, Saver):
        return
    if profile not in PROFILES:
        raise InvalidConfigError(
            f"unknown {VARIABLE}={profile!r}; expected one of {', '.join(PROFILES)}",
            do=did_you_mean(profile, PROFILES),
        )
    if not saver.durable:
        raise InvalidConfigError(
            f"{type(saver).__name__} keeps checkpoints in this process only, and {VARIABLE} is "
            "'production'",
            do="pass a durable checkpointer=, e.g. SqliteSaver('runs.db') or PostgresSaver(...)",
        )

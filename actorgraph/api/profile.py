"""The production profile: `ACTORGRAPH_PROFILE=production` refuses savers that lose everything."""

import os

from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.ports import Saver

VARIABLE = "ACTORGRAPH_PROFILE"
PROFILES = ("development", "production")


def check_profile(saver: object) -> None:
    """Refuse a saver that doesn't outlive the process, where the environment says production.

    Raises:
        InvalidConfigError: it does not; or there is no such profile.
    """
    profile = os.environ.get(VARIABLE, "")
    if profile in {"", "development"} or not isinstance(saver, Saver):
        return
    if profile not in PROFILES:
        raise InvalidConfigError(f"{VARIABLE}={profile!r}", do=did_you_mean(profile, PROFILES))
    if not saver.durable:
        raise InvalidConfigError(
            f"{type(saver).__name__} keeps checkpoints in this process only, and {VARIABLE} is "
            "'production'",
            do="pass a durable checkpointer=, e.g. SqliteSaver('runs.db') or PostgresSaver(...)",
        )

"""Which event loop runs here, if any: stores work in all of them, and belong to none."""

import sys

import anyio.lowlevel


def loop_runs() -> bool:
    """Whether this is code of a running event loop."""
    try:
        anyio.lowlevel.current_token()
    except RuntimeError:
        return False
    return True


def on_trio() -> bool:
    """Whether that loop is trio's."""
    if "trio" not in sys.modules:
        return False
    import trio

    return trio.lowlevel.in_trio_run()

"""The thread of a request: the one place that looks at it, from admission to the run.

admit_to_thread    looks the thread up, and authorizes the request for it
authorize_again    does that again, for a request that stays open
thread_of_run      the thread that a run is started on, registered if it wasn't
check_kept         looks again once the run is stored: the thread may have been removed meanwhile

A run needs no other look at its thread than the first, its own load and the last; see decision 53.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from actorgraph.internals import shielded
from actorgraph.systems import Run
from actorgraph.web.http.access import Access
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import NotFound
from actorgraph.web.registries.thread_registry import (
    RUN_LABELS,
    Labelled,
    Registry,
    StoredThread,
    at_once,
)


async def admit_to_thread(
    threads: Registry,
    access: Access,
    asked: tuple[Any, str, str],
    *,
    may_create: bool,
    names_graph: bool = False,
) -> tuple[StoredThread | None, dict[str, Any]]:
    """Look up a request's thread, and authorize the request for it.

    Args:
        asked: the principal, the action and the thread's id.
        may_create: whether the thread may be missing.
        names_graph: whether the request puts its graph into the thread's metadata. If no rule
            reads them before, the graph that a registered thread had is not looked up.
    Returns: the thread, None if it is missing; and what its metadata must contain.
    Raises:
        NotFound: the thread doesn't exist, or the principal may not see it.
    """
    principal, action, thread_id = asked
    unread = names_graph and access.authorize is None
    thread = await threads.get(thread_id, overridden=RUN_LABELS if unread else ())
    if thread is None and not may_create:
        raise NotFound.thread(thread_id)
    metadata = thread.metadata if thread else {}
    wanted = dict(await access.ask(principal, action, thread_id, metadata))
    if thread is not None:
        thread.must_hold(wanted)
    return thread, wanted


async def authorize_again(
    threads: Registry, access: Access, asked: tuple[Any, str, str], was: StoredThread | None
) -> None:
    """Authorize an open request as at its beginning.

    Args:
        asked: as for `admit_to_thread`.
        was: the thread at the beginning. One that was removed since is judged as it was: its
            stream ends by itself.
    Raises:
        NotFound: denied.
    """
    principal, action, thread_id = asked
    if access.authorize is None:  # nothing reads the thread
        return
    thread = await threads.get(thread_id) or was
    metadata = thread.metadata if thread else {}
    wanted = await access.ask(principal, action, thread_id, metadata)
    if thread is not None:
        thread.must_hold(dict(wanted))


async def thread_of_run(
    threads: Registry,
    thread: StoredThread | None,
    thread_id: str,
    labels: Mapping[str, Any],
    wanted: Mapping[str, Any],
) -> tuple[StoredThread, Labelled]:
    """Return the thread that a request's path names, for a run; registers it if necessary.

    The labels of a registered thread are stored together with the run, so the caller waits for
    them when it has started that, with what is returned beside the thread.

    Args:
        thread: as `admit_to_thread` returned it.
        labels: metadata that name the run's graph.
        wanted: what the thread's metadata must contain.
    Raises:
        NotFound: another request has created it meanwhile, and the principal may not see it.
    """
    if thread is None:
        thread = await threads.ensure(thread_id, {**labels, **wanted})
        thread.must_hold(wanted)
        return thread, at_once
    if not contains(thread.metadata, labels):  # reads use the graph of the newest run
        return await threads.label(thread, labels)
    return thread if thread.registered else await threads.merge(thread, {}), at_once


async def check_kept(
    threads: Registry, saver: Any, thread: StoredThread, run: Run, labelled: Labelled
) -> None:
    """Cancel a run whose thread was removed while it was started; see `remove_thread`.

    Args:
        labelled: as `thread_of_run` returned it.
    Raises:
        NotFound: the thread was removed.
        StorageError: its labels could not be stored; the run is cancelled.
    """
    try:
        await labelled()
    except Exception:
        await shielded(partial(run.cancel, "its thread could not be labelled", wait=False))
        raise
    if thread.temporary:  # removed after the run
        return
    if await threads.is_still(thread):
        return
    await run.cancel("its thread was removed")
    if await threads.registered(thread.thread_id) is None:
        await saver.adelete_thread(thread.thread_id)
    raise NotFound.thread(thread.thread_id)

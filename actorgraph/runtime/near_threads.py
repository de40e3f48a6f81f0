"""Advice where a thread has nothing: which threads have similar ids."""

from actorgraph.errors import ActorGraphError
from actorgraph.runtime.hosting import Host
from actorgraph.values.retention import ListThreads

COMPARED_MAX = 2000


async def near_threads(host: Host, thread_id: str) -> str:
    """`did you mean thread 'x'?`, or "" where none is near.

    Of very many threads those are compared whose ids begin alike.
    """
    try:
        known: list[str] = await host.reader.ask(ListThreads())
    except ActorGraphError:
        return ""  # the advice is lost, the error that it belongs to is not
    if thread_id in known:
        return ""
    if len(known) > COMPARED_MAX:
        begins = thread_id[:2].casefold()
        known = [name for name in known if name[:2].casefold() == begins][:COMPARED_MAX]
    by_case = {name.casefold(): name for name in known}
    from difflib import get_close_matches  # few programs mistake a name

    found = get_close_matches(thread_id.casefold(), by_case, n=2, cutoff=0.75)
    names = " or ".join(repr(by_case[name]) for name in found)
    return f"did you mean thread {names}?" if names else ""

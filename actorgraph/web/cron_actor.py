"""CronActor: starts the runs of crons at their times.

Receives   the time, from `background.look_forever`
Decides    `cron_plan.decide_tick`
Once       a run's id and thread are made of its cron and tick, so that of all servers that start
           it one stores it (`ActorSystem.start_once`); workers, or this system, run it
"""

from datetime import datetime
from functools import partial

import anyio

from actorgraph.errors import (
    ActorGraphError,
    ChangedTypeError,
    SchemaMismatchError,
    SystemBusyError,
    SystemClosedError,
    ThreadBusyError,
)
from actorgraph.internals import UNREADABLE, assistant_id, beside, is_large
from actorgraph.internals import log_event as event
from actorgraph.web.endpoints.cron_runs import run_of_tick
from actorgraph.web.endpoints.endpoint import Server
from actorgraph.web.http.problems import HttpProblem
from actorgraph.web.jobs.background import LOOK_S
from actorgraph.web.jobs.cron_agenda import Entry
from actorgraph.web.jobs.cron_plan import StartTick, next_look_s
from actorgraph.web.jobs.cron_registry import CRON, StoredCron
from actorgraph.web.registries.assistant_registry import StoredAssistant, of_graph
from actorgraph.web.registries.thread_registry import thread_metadata_of

STALE_S = 20.0
"""Seconds after which a decision is made anew: another server may have started the tick."""

MISFITS_MAX = 1_000
"""Crons for other versions that are remembered as named in the log."""


class CronActor:
    """Starts the runs of one server's crons.

    Args:
        server: whose crons and system.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._misfits: dict[str, str] = {}

    async def look(self, now: datetime) -> float:
        """Start the ticks that are due; returns the seconds until the next look.

        It reads the crons whose time has come, by the agenda, and a few others.
        """
        crons, pause_s = self._server.crons, min(LOOK_S, next_look_s(now))
        await crons.begin_agenda(now)
        due: dict[str, list[Entry]] = {}
        for entry in await crons.agenda.due(now):
            due.setdefault(entry.cron_id, []).append(entry)
        left: list[Entry] = []
        for cron_id, entries in due.items():
            cron = await crons.get(cron_id)
            again = None if cron is None else await self._try(cron, now)
            if again is None:
                await crons.agenda.remove(entries)
            else:
                left += entries
                pause_s = min(pause_s, again)
        for cron in await crons.page():
            if cron.cron_id not in due:
                again = await self._try(cron, now)
                pause_s = pause_s if again is None else min(pause_s, again)
        await crons.agenda.done(now, left)
        return pause_s

    async def _try(self, cron: StoredCron, now: datetime) -> float | None:
        """Start a cron's tick if one is due; returns None, or the seconds until it is due again."""
        try:
            return await self._look_at(cron, now)
        except SystemClosedError:
            raise
        except (SystemBusyError, *UNREADABLE) as error:  # the next look tries again
            event("warning", "cron.not_started", cron_id=cron.cron_id, error=repr(error))
        except Exception as error:  # noqa: BLE001 - the others are started
            event("error", "cron.failed", cron_id=cron.cron_id, error=repr(error))
        return LOOK_S

    async def _look_at(self, cron: StoredCron, now: datetime) -> float | None:
        crons = self._server.crons
        begun = anyio.current_time()
        decision = await crons.decide(cron, now)
        if isinstance(decision, StartTick):
            try:
                if not await self._start(cron, decision.tick, begun):
                    return 0.0
                self._misfits.pop(cron.cron_id, None)
            except (SchemaMismatchError, ChangedTypeError) as error:
                # The tick stays due: a server of the version that fits may start it.
                self._note_misfit(cron.cron_id, str(error))
                return LOOK_S
            except (ActorGraphError, HttpProblem, ValueError) as error:
                if isinstance(error, SystemClosedError | SystemBusyError | UNREADABLE):
                    raise
                # It would fail the same way at each look: this tick is left out.
                event("error", "cron.tick_refused", cron_id=cron.cron_id, error=repr(error))
            await crons.note_fired(cron, decision.fired)
            decision = await crons.decide(cron, now)
        await crons.schedule(cron, decision)
        return None

    async def _start(self, cron: StoredCron, tick: datetime, begun: float) -> bool:
        """Start a tick's run; returns False if the decision is too old to be sure of."""
        assistant = await self._assistant(cron)
        if assistant is None or assistant.now.graph_id not in self._server.graphs:
            event("error", "cron.without_assistant", cron_id=cron.cron_id)
            return True
        name = assistant.now.graph_id
        made = partial(run_of_tick, self._server.graphs[name], assistant, cron)
        given, options = await beside(made) if is_large(cron) else made()
        thread_id = await self._thread(cron, tick, assistant)
        if thread_id is None:
            await self._server.crons.remove(cron.cron_id)
            return True
        if anyio.current_time() - begun > STALE_S:
            return False
        key = f"{CRON}/{cron.cron_id}/{tick.isoformat()}"
        try:
            async with self._server.webhooks.armed(
                thread_id, options["metadata"], user=cron.user_id, key=key
            ) as armed:
                armed(
                    await self._server.system.start_once(
                        name, thread_id, given, key=key, moment=tick, **options
                    )
                )
        except ThreadBusyError:  # "reject": the thread has a run, maybe this one
            event("info", "cron.thread_busy", cron_id=cron.cron_id, thread_id=thread_id)
        return True

    def _note_misfit(self, cron_id: str, reason: str) -> None:
        """Log that a cron is for another version of its graph: once for each reason."""
        if self._misfits.get(cron_id) != reason:
            if len(self._misfits) >= MISFITS_MAX:
                self._misfits.clear()
            self._misfits[cron_id] = reason
            event("error", "cron.misfit", cron_id=cron_id, reason=reason)

    async def _assistant(self, cron: StoredCron) -> StoredAssistant | None:
        for name in self._server.graphs:
            if assistant_id(name) == cron.assistant_id:
                return of_graph(name)
        return await self._server.assistants.get(cron.assistant_id)

    async def _thread(
        self, cron: StoredCron, tick: datetime, assistant: StoredAssistant
    ) -> str | None:
        """Register the thread of a tick's run; None if the cron's own thread was removed."""
        threads, thread_id = self._server.threads, cron.thread_of(tick)
        named = {
            **thread_metadata_of(assistant.now.graph_id),
            "assistant_id": assistant.assistant_id,
        }
        if cron.thread_id is not None:
            thread = await threads.get(thread_id)
            if thread is None:
                return None
            await threads.merge(thread, named)
            return thread_id
        metadata = {**named, CRON: cron.cron_id, **cron.wanted}
        goes = cron.on_run_completed == "delete"
        await threads.make(thread_id, metadata, if_exists="do_nothing", temporary=goes)
        return thread_id

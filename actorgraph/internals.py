"""The port of the packages around the library: the internal names that they may use.

`prebuilt`, `migrate`, `web`, `studio` and `cli` take from the library its public names, and these:
so the library can change whatever is neither. Nothing is defined here; a name is loaded when it is
first asked for, as the command's help is quick. A name that two modules have, or that says little
without its module, has a longer one here.

Internal all the same: programs import public names alone (docs/reference/names.md). Two lists say
the same, the first to type checkers; `tests/test_rings.py` compares them, and finds a name that no
package uses any more.
"""

# pyright: reportUnusedImport=false

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # isort would write one line for each name.
    # isort: off
    from actorgraph.api.blocking import block_on
    from actorgraph.api.config import address_of, is_thread_id
    from actorgraph.api.graph.arguments import context_in
    from actorgraph.api.graph.joined_contexts import Part as ContextPart, joined_context
    from actorgraph.api.graph.joined_contexts import refused_parts
    from actorgraph.api.graph.stored_contexts import fits as context_fits
    from actorgraph.api.graph.stored_contexts import note_of as context_note_of
    from actorgraph.api.graph.subgraphs import graph_at
    from actorgraph.api.graph.timelines import read_steps
    from actorgraph.api.pages import Pages
    from actorgraph.api.savers.adapt import adapt_checkpointer, is_foreign
    from actorgraph.api.savers.host_access import innermost
    from actorgraph.api.savers.listing import Listing
    from actorgraph.api.savers.stored_states import list_stored, read_stored
    from actorgraph.api.streams.events import StreamMux
    from actorgraph.api.streams.langchain_events import MODES as LANGCHAIN_EVENT_MODES, SpanEvents
    from actorgraph.api.streams.langchain_events import StreamEvent
    from actorgraph.api.system.prometheus import exposition, only_of
    from actorgraph.api.system.run_arguments import DELAY_MAX_S, StartCall, stored_call
    from actorgraph.api.system.run_feed import WAITING_MAX as EVENTS_WAITING_MAX
    from actorgraph.api.system.run_handle import StoredRun, check_reading
    from actorgraph.api.system.run_search import belongs_later, cursor_behind
    from actorgraph.api.system.thread_checks import check_threads, damaged_id, unreadable
    from actorgraph.api.system.thread_finder import ASSISTANT, GRAPH, assistant_id, moment_before
    from actorgraph.api.system.thread_finder import thread_info, thread_metadata_of, thread_status
    from actorgraph.api.system.thread_finder import wanted_facts, writer_of
    from actorgraph.bridging import BRIDGE
    from actorgraph.codec.bounds import CopyBudget, build_set
    from actorgraph.codec.conversions import migrated_input, noted
    from actorgraph.codec.decode_errors import raise_located
    from actorgraph.codec.save_encoder import SaveEncoder
    from actorgraph.codec.known_types import declare
    from actorgraph.codec.library_types import library_type
    from actorgraph.codec.stored_types import MODEL, NAMED_TUPLE, OLD_MODEL, PATTERN, SLOTTED
    from actorgraph.codec.stored_types import builtin_of, extension_of
    from actorgraph.codec.subclasses import plain_value
    from actorgraph.errors.signatures import signature_of
    from actorgraph.errors.storage import DAMAGED, UNREADABLE, fails_every_request
    from actorgraph.errors.texts import error_text
    from actorgraph.errors.warning_places import warn as warn_at_caller
    from actorgraph.loops import Turns, beside, in_thread, in_turns, on_trio, shielded
    from actorgraph.messages.call_ids import check_call_ids
    from actorgraph.messages.conversion import converted
    from actorgraph.messages.kinds import KINDS as MESSAGE_KINDS
    from actorgraph.plan.annotation_forms import class_of, form_of, members_of, unknown_in, walked
    from actorgraph.plan.annotations import class_annotations, declared_names
    from actorgraph.plan.annotations import function_annotations
    from actorgraph.plan.callables import injected as injected_parameters, mark_only_reads
    from actorgraph.plan.forms import has_sync_form
    from actorgraph.plan.node_policies import Retry, limit_of, retries_of
    from actorgraph.plan.old_names import old_names
    from actorgraph.plan.plan import NodePlan, Plan
    from actorgraph.plan.schema import is_schema, types_in
    from actorgraph.plan.state_objects import fields_in
    from actorgraph.rules.run_order import newest_of, waits_for_time
    from actorgraph.runtime.broadcast import BUFFER_BYTES
    from actorgraph.runtime.clock import microseconds_now
    from actorgraph.runtime.log import event as log_event
    from actorgraph.runtime.mailbox import Gate, pause
    from actorgraph.runtime.saver.hosting import Host, host_of, living_host
    from actorgraph.runtime.saver.persistence import post_request
    from actorgraph.runtime.saver.reading import NO_THREAD
    from actorgraph.runtime.saver.thread_runs import AT_ONCE as THREADS_AT_ONCE, parked_rows
    from actorgraph.runtime.saver.thread_runs import runs_of_threads, without_later
    from actorgraph.runtime.stepper import run_together, stepper_here, steps_here
    from actorgraph.runtime.system.parked import retry_rows, rows_of
    from actorgraph.runtime.system.sampling import SAMPLE_S, StatisticsSample
    from actorgraph.runtime.system.statistics import SystemStatistics
    from actorgraph.runtime.system.stored_events import read_page
    from actorgraph.runtime.task.call_errors import is_foreign_control_flow, translated
    from actorgraph.runtime.task.calling import abandoned, call_plain
    from actorgraph.runtime.task.functions import get_runtime, injected as injected_values
    from actorgraph.runtime.task.adopted_questions import adopt_questions
    from actorgraph.runtime.task.functions import kept_step, runtime_of
    from actorgraph.runtime.task.live import Writer
    from actorgraph.runtime.task.operation_spans import OperationSpan
    from actorgraph.runtime.task.runtime import Runtime
    from actorgraph.runtime.task.scope import CURRENT, TaskScope, get_config
    from actorgraph.savers.foreign.payloads import number_of
    from actorgraph.savers.postgres.schema import VERSION as POSTGRES_SCHEMA_VERSION
    from actorgraph.savers.retention import RetentionPoint, plan_removal
    from actorgraph.savers.sqlite.schema import SCHEMA_VERSION as SQLITE_SCHEMA_VERSION
    from actorgraph.storage.async_files import read_bytes, text_file
    from actorgraph.storage.part_files import finish as finish_part, locked_part
    from actorgraph.storage.postgres.timeouts import Timeouts, USE_SCHEMA, quoted
    from actorgraph.storage.sqlite.open_files import reading_address
    from actorgraph.superstep.changes.lost_tools import lost_tool_advice
    from actorgraph.superstep.changes.waiting_inputs import refused_input
    from actorgraph.superstep.deltas import COUNTERS
    from actorgraph.superstep.nesting import nodes_of
    from actorgraph.superstep.snapshot import iso
    from actorgraph.superstep.task_failures import next_delay, retry_after
    from actorgraph.superstep.tasks import state_for
    from actorgraph.values.alarms import as_datetime, shown_times, times_in
    from actorgraph.values.checked_threads import SettingsGroup, SettingsTally, ThreadCheckReport
    from actorgraph.values.checked_threads import ThreadGroup
    from actorgraph.values.commits import Commit, Committed, EPOCH_ANY, ListCheckpoints
    from actorgraph.values.commits import StoredCheckpoint
    from actorgraph.values.constants import BRANCH_TO, CONTROL_INDEX, ERROR as ERROR_CHANNEL
    from actorgraph.values.constants import INTERRUPT, NULL_TASK, PULL, PUSH, RESUME
    from actorgraph.values.constants import ROOT as ROOT_CHANNEL, TASKS
    from actorgraph.values.durations import DURATION_MAX_S, checked_limit, checked_seconds
    from actorgraph.values.durations import seconds_of
    from actorgraph.values.graph_changes import Finding, FindingKind, ResumeVerdict
    from actorgraph.values.http_errors import connection_text
    from actorgraph.values.ids import TaskId, as_bytes, as_text, created_of, interrupt_id
    from actorgraph.values.ids import milliseconds_of, task_id
    from actorgraph.values.largeness import is_large
    from actorgraph.values.policies import STREAM_MODES
    from actorgraph.values.response_schemas import misfit
    from actorgraph.values.retention import CountCheckpoints, Expire, KeepLast, ListThreads
    from actorgraph.values.run import LedgerEntry, NewCheckpoint, Save, TaskPath
    from actorgraph.values.schema_types import ContextT
    from actorgraph.values.stream_items import Namespace, WhenFull
    from actorgraph.values.systems import AdoptRun, AskCancel, ListOwners, ListRuns, NO_OWNER
    from actorgraph.values.systems import OPEN_STATUSES, OwnerRow, RunRow, RunStatus, SetRun
    from actorgraph.values.thread_phase import PHASES, PHASE_TEXT, PhaseFacts, ThreadPhase
    from actorgraph.values.thread_phase import phase_named, phase_of
    from actorgraph.values.thread_rows import DropThread, FindThreads, PatchThread, PutThread
    from actorgraph.values.thread_rows import ThreadFact, ThreadRow
    from actorgraph.values.version import __version__

_BY_MODULE = {
    "actorgraph.api.blocking": "block_on",
    "actorgraph.api.config": "address_of is_thread_id",
    "actorgraph.api.graph.arguments": "context_in",
    "actorgraph.api.graph.joined_contexts": "Part:ContextPart joined_context refused_parts",
    "actorgraph.api.graph.stored_contexts": "fits:context_fits note_of:context_note_of",
    "actorgraph.api.graph.subgraphs": "graph_at",
    "actorgraph.api.graph.timelines": "read_steps",
    "actorgraph.api.pages": "Pages",
    "actorgraph.api.savers.adapt": "adapt_checkpointer is_foreign",
    "actorgraph.api.savers.host_access": "innermost",
    "actorgraph.api.savers.listing": "Listing",
    "actorgraph.api.savers.stored_states": "list_stored read_stored",
    "actorgraph.api.streams.events": "StreamMux",
    "actorgraph.api.streams.langchain_events": "MODES:LANGCHAIN_EVENT_MODES SpanEvents StreamEvent",
    "actorgraph.api.system.prometheus": "exposition only_of",
    "actorgraph.api.system.run_arguments": "DELAY_MAX_S StartCall stored_call",
    "actorgraph.api.system.run_feed": "WAITING_MAX:EVENTS_WAITING_MAX",
    "actorgraph.api.system.run_handle": "StoredRun check_reading",
    "actorgraph.api.system.run_search": "belongs_later cursor_behind",
    "actorgraph.api.system.thread_checks": "check_threads damaged_id unreadable",
    "actorgraph.api.system.thread_finder": """
        ASSISTANT GRAPH assistant_id moment_before thread_info thread_metadata_of thread_status
        wanted_facts writer_of
    """,
    "actorgraph.bridging": "BRIDGE",
    "actorgraph.codec.bounds": "CopyBudget build_set",
    "actorgraph.codec.conversions": "migrated_input noted",
    "actorgraph.codec.decode_errors": "raise_located",
    "actorgraph.codec.save_encoder": "SaveEncoder",
    "actorgraph.codec.known_types": "declare",
    "actorgraph.codec.library_types": "library_type",
    "actorgraph.codec.stored_types": """
        MODEL NAMED_TUPLE OLD_MODEL PATTERN SLOTTED builtin_of extension_of
    """,
    "actorgraph.codec.subclasses": "plain_value",
    "actorgraph.errors.signatures": "signature_of",
    "actorgraph.errors.storage": "DAMAGED UNREADABLE fails_every_request",
    "actorgraph.errors.texts": "error_text",
    "actorgraph.errors.warning_places": "warn:warn_at_caller",
    "actorgraph.loops": "Turns beside in_thread in_turns on_trio shielded",
    "actorgraph.messages.call_ids": "check_call_ids",
    "actorgraph.messages.conversion": "converted",
    "actorgraph.messages.kinds": "KINDS:MESSAGE_KINDS",
    "actorgraph.plan.annotation_forms": "class_of form_of members_of unknown_in walked",
    "actorgraph.plan.annotations": "class_annotations declared_names function_annotations",
    "actorgraph.plan.callables": "injected:injected_parameters mark_only_reads",
    "actorgraph.plan.forms": "has_sync_form",
    "actorgraph.plan.node_policies": "Retry limit_of retries_of",
    "actorgraph.plan.old_names": "old_names",
    "actorgraph.plan.plan": "NodePlan Plan",
    "actorgraph.plan.schema": "is_schema types_in",
    "actorgraph.plan.state_objects": "fields_in",
    "actorgraph.rules.run_order": "newest_of waits_for_time",
    "actorgraph.runtime.broadcast": "BUFFER_BYTES",
    "actorgraph.runtime.clock": "microseconds_now",
    "actorgraph.runtime.log": "event:log_event",
    "actorgraph.runtime.mailbox": "Gate pause",
    "actorgraph.runtime.saver.hosting": "Host host_of living_host",
    "actorgraph.runtime.saver.persistence": "post_request",
    "actorgraph.runtime.saver.reading": "NO_THREAD",
    "actorgraph.runtime.saver.thread_runs": """
        AT_ONCE:THREADS_AT_ONCE parked_rows runs_of_threads without_later
    """,
    "actorgraph.runtime.stepper": "run_together stepper_here steps_here",
    "actorgraph.runtime.system.parked": "retry_rows rows_of",
    "actorgraph.runtime.system.sampling": "SAMPLE_S StatisticsSample",
    "actorgraph.runtime.system.statistics": "SystemStatistics",
    "actorgraph.runtime.system.stored_events": "read_page",
    "actorgraph.runtime.task.call_errors": "is_foreign_control_flow translated",
    "actorgraph.runtime.task.calling": "abandoned call_plain",
    "actorgraph.runtime.task.adopted_questions": "adopt_questions",
    "actorgraph.runtime.task.functions": """
        get_runtime injected:injected_values kept_step runtime_of
    """,
    "actorgraph.runtime.task.live": "Writer",
    "actorgraph.runtime.task.operation_spans": "OperationSpan",
    "actorgraph.runtime.task.runtime": "Runtime",
    "actorgraph.runtime.task.scope": "CURRENT TaskScope get_config",
    "actorgraph.savers.foreign.payloads": "number_of",
    "actorgraph.savers.postgres.schema": "VERSION:POSTGRES_SCHEMA_VERSION",
    "actorgraph.savers.retention": "RetentionPoint plan_removal",
    "actorgraph.savers.sqlite.schema": "SCHEMA_VERSION:SQLITE_SCHEMA_VERSION",
    "actorgraph.storage.async_files": "read_bytes text_file",
    "actorgraph.storage.part_files": "finish:finish_part locked_part",
    "actorgraph.storage.postgres.timeouts": "Timeouts USE_SCHEMA quoted",
    "actorgraph.storage.sqlite.open_files": "reading_address",
    "actorgraph.superstep.changes.lost_tools": "lost_tool_advice",
    "actorgraph.superstep.changes.waiting_inputs": "refused_input",
    "actorgraph.superstep.deltas": "COUNTERS",
    "actorgraph.superstep.nesting": "nodes_of",
    "actorgraph.superstep.snapshot": "iso",
    "actorgraph.superstep.task_failures": "next_delay retry_after",
    "actorgraph.superstep.tasks": "state_for",
    "actorgraph.values.alarms": "as_datetime shown_times times_in",
    "actorgraph.values.checked_threads": """
        SettingsGroup SettingsTally ThreadCheckReport ThreadGroup
    """,
    "actorgraph.values.commits": "Commit Committed EPOCH_ANY ListCheckpoints StoredCheckpoint",
    "actorgraph.values.constants": """
        BRANCH_TO CONTROL_INDEX ERROR:ERROR_CHANNEL INTERRUPT NULL_TASK PULL PUSH RESUME
        ROOT:ROOT_CHANNEL TASKS
    """,
    "actorgraph.values.durations": "DURATION_MAX_S checked_limit checked_seconds seconds_of",
    "actorgraph.values.graph_changes": "Finding FindingKind ResumeVerdict",
    "actorgraph.values.http_errors": "connection_text",
    "actorgraph.values.ids": """
        TaskId as_bytes as_text created_of interrupt_id milliseconds_of task_id
    """,
    "actorgraph.values.largeness": "is_large",
    "actorgraph.values.policies": "STREAM_MODES",
    "actorgraph.values.response_schemas": "misfit",
    "actorgraph.values.retention": "CountCheckpoints Expire KeepLast ListThreads",
    "actorgraph.values.run": "LedgerEntry NewCheckpoint Save TaskPath",
    "actorgraph.values.schema_types": "ContextT",
    "actorgraph.values.stream_items": "Namespace WhenFull",
    "actorgraph.values.systems": """
        AdoptRun AskCancel ListOwners ListRuns NO_OWNER OPEN_STATUSES OwnerRow RunRow RunStatus
        SetRun
    """,
    "actorgraph.values.thread_phase": """
        PHASES PHASE_TEXT PhaseFacts ThreadPhase phase_named phase_of
    """,
    "actorgraph.values.thread_rows": """
        DropThread FindThreads PatchThread PutThread ThreadFact ThreadRow
    """,
    "actorgraph.values.version": "__version__",
}
"""Module -> its names; `name:other` has another one here."""

NAMES = {
    other or name: (module, name)
    for module, names in _BY_MODULE.items()
    for name, _, other in (word.partition(":") for word in names.split())
}
"""Name -> its module, and its name there."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module, there = NAMES[name]
    found = globals()[name] = getattr(import_module(module), there)
    return found

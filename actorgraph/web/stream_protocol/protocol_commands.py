"""The commands of the streaming protocol: start a run, answer questions, fork, read the state.

`POST /threads/{thread_id}/commands` takes one command as JSON and answers `{"type": "success"}` or
`{"type": "error"}` with its id. Errors of the command itself have a code of the protocol; those of
the request (authentication, a missing thread, limits) are problem responses as on every route.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, field
from msgspec.structs import replace
from starlette.responses import Response

from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointNotFoundError,
    EmptyInputError,
    InvalidConfigError,
    InvalidContextError,
    InvalidResumeError,
    InvalidUpdateError,
    SerializationError,
    UnknownInterruptError,
)
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint, convert_to, with_graph
from actorgraph.web.endpoints.run_start import start_run
from actorgraph.web.endpoints.thread_state import checkpoint_config, config_of, is_busy
from actorgraph.web.http import bodies
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.problems import HttpProblem, Unprocessable
from actorgraph.web.http.weights import weight_of
from actorgraph.web.registries.thread_registry import GRAPH, graph_that_wrote
from actorgraph.web.stream_protocol.protocol_events import WIRE_MODES
from actorgraph.web.stream_protocol.protocol_streams import first_number

Code = Literal[
    "invalid_argument",
    "unknown_command",
    "no_such_interrupt",
    "no_such_checkpoint",
    "no_such_subscription",
    "permission_denied",
    "not_supported",
    "unknown_error",
]
Json = dict[str, Any]
Strategy = Literal["reject", "rollback", "interrupt", "enqueue"]
CommandId = Annotated[int, Meta(ge=0, lt=2**53)]


class WireCommand(Struct):
    """A command; `params` depend on `method`."""

    id: CommandId
    method: str
    params: Json = {}

    @property
    def if_not_exists(self) -> str:
        """Whether it creates the thread: the first run of a client's new thread does."""
        return "create" if self.method == "run.start" else "reject"


class WireResult(Struct, tag="success"):
    """The answer to a command; events of its run have numbers above `applied_through_seq`."""

    id: CommandId
    result: Json
    meta: Json = {}


class WireError(Struct, tag="error"):
    """The answer to a command that is refused."""

    id: CommandId | None
    error: Code
    message: str


class CommandRefused(Exception):
    """A command can't be executed.

    Attributes:
        code: of the protocol.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Code = code


class RunStartParams(bodies.ForNodes):
    """A run to start. `multitask_strategy` and `multitaskStrategy` are two names for one thing."""

    assistant_id: str
    input: Any = None
    config: bodies.ConfigBody | None = None
    context: Json | None = None
    metadata: Json | None = None
    multitask_strategy: Strategy | None = None
    multitask_strategy_js: Strategy | None = field(name="multitaskStrategy", default=None)


class Answer(Struct):
    """The answer to one question. Its id is enough: the namespace is not needed."""

    interrupt_id: str
    response: Any
    namespace: list[str] = []


class RespondParams(bodies.ForNodes, Struct):
    """Answers, one (`interrupt_id`, `response`) or several, and a state update and next nodes."""

    interrupt_id: str | None = None
    response: Any = UNSET
    responses: list[Answer] | None = None
    namespace: list[str] = []
    update: Json | list[tuple[str, Any]] | None = None
    goto: bodies.SendBody | str | list[bodies.SendBody | str] | None = None
    config: bodies.ConfigBody | None = None
    metadata: Json | None = None

    @property
    def answers(self) -> dict[str, Any]:
        """Interrupt id -> answer.

        Raises:
            CommandRefused: none is given, or both forms are used.
        """
        if (self.responses is None) is (self.interrupt_id is None):
            text = "either interrupt_id and response, or responses, is required"
            raise CommandRefused("invalid_argument", text)
        if self.responses is not None:
            found = {one.interrupt_id: one.response for one in self.responses}
        else:
            assert self.interrupt_id is not None
            found = {self.interrupt_id: self.response}
        if not found or UNSET in found.values():
            raise CommandRefused("invalid_argument", "an answer without a response")
        return found


class ForkParams(Struct):
    """A run from an older checkpoint; without an input it continues from there."""

    checkpoint_id: str
    input: Any = None
    config: bodies.ConfigBody | None = None


class StateParams(Struct):
    """The state to read: all of it, or some keys; of a subgraph that waits, its namespace."""

    namespace: list[str] = []
    keys: list[str] | None = None


async def command(call: ApiCall) -> Response:
    """Execute one command."""
    return _response(await execute(call, call.body))


def _refused(call: ApiCall) -> Response | None:
    """Answer a command whose method or parameters are invalid."""
    error = invalid(call.body)
    return None if error is None else _response(error)


def _response(answer: "WireResult | WireError") -> Response:
    return Response(encode_answer(answer), media_type="application/json")


encode_answer = msgspec.json.Encoder().encode
"""Encode an answer, with its `type`; its result is plain already."""


def invalid(said: WireCommand) -> WireError | None:
    """Return the answer to a command whose method or parameters are invalid; else None."""
    try:
        _parsed(said)
    except CommandRefused as refused:
        return WireError(said.id, refused.code, str(refused))
    return None


async def execute(call: ApiCall, said: WireCommand) -> WireResult | WireError:
    """Execute a command on the thread of the call.

    Raises:
        TooMany: it counts as more requests than the client's rate has left.
    """
    try:
        handle, params = _parsed(said)
        call.server.clients.check_weight(call.request, call.principal, weight_of(params))
        result, meta = await handle(call, params)
    except CommandRefused as refused:
        return WireError(said.id, refused.code, str(refused))
    except (AlreadyResumedError, UnknownInterruptError) as error:
        return WireError(said.id, "no_such_interrupt", str(error))
    except CheckpointNotFoundError as error:
        return WireError(said.id, "no_such_checkpoint", str(error))
    except _INVALID as error:
        call.server.refusals.count(error)
        text = error.detail if isinstance(error, HttpProblem) else str(error)
        return WireError(said.id, "invalid_argument", text)
    return WireResult(said.id, result, meta)


_INVALID = (
    Unprocessable,
    EmptyInputError,
    InvalidConfigError,
    InvalidContextError,
    InvalidResumeError,
    InvalidUpdateError,
    SerializationError,
)


async def _start(call: ApiCall, said: RunStartParams) -> tuple[Json, Json]:
    """Start a run. Input for a thread that waits for an answer starts anew, as on `POST /runs`."""
    strategy = said.multitask_strategy or said.multitask_strategy_js
    body = _run_body(said.assistant_id, said.config)
    body.input, body.context, body.metadata = said.input, said.context, said.metadata
    body.multitask_strategy = strategy or "enqueue"
    return await _started(call, body)


async def _respond(call: ApiCall, said: RespondParams) -> tuple[Json, Json]:
    """Resume the run that waits for these answers."""
    answers = said.answers
    await _check_answers(call, answers)
    body = _run_body(await _graph(call), said.config)
    body.command = bodies.CommandBody(answers=answers, update=said.update, goto=said.goto)
    body.metadata = said.metadata
    return await _started(call, body)


async def _check_answers(call: ApiCall, answers: Json) -> None:
    """Refuse answers to questions that the thread doesn't ask, before a run is started.

    While another run is open the thread's questions may change: then the run itself decides.

    Raises:
        CommandRefused: a question is unknown or answered.
    """
    assert call.thread is not None
    system, thread = call.server.system, call.thread
    if await is_busy(system, thread.thread_id):
        return
    config = config_of(thread.thread_id, {})
    state = await with_graph(call, thread, lambda graph: graph.aget_state(config))
    waiting = [question.id for question in state.interrupts]
    for identifier in answers:
        if identifier not in waiting:
            known = ", ".join(waiting) or "none"
            text = f"interrupt {identifier!r} doesn't wait for an answer; waiting: {known}"
            raise CommandRefused("no_such_interrupt", text)


async def _fork(call: ApiCall, said: ForkParams) -> tuple[Json, Json]:
    """Start a run from an older checkpoint."""
    body = _run_body(await _graph(call), said.config)
    body.input, body.checkpoint_id = said.input, said.checkpoint_id
    result, meta = await _started(call, body)
    return {**result, "thread_id": call.thread_id}, meta


async def _state(call: ApiCall, said: StateParams) -> tuple[Json, Json]:
    """Return the values of the thread's state, and its checkpoint."""
    assert call.thread is not None
    thread, place = call.thread, bodies.CheckpointBody(checkpoint_ns="|".join(said.namespace))
    await call.server.access.ask(call.principal, "threads.read", thread.thread_id, thread.metadata)
    config = config_of(thread.thread_id, checkpoint_config(place))
    state = await with_graph(call, thread, lambda graph: graph.aget_state(config))
    values = dict(state.values)
    if said.keys is not None:
        values = {key: values[key] for key in said.keys if key in values}
    address = (state.config or {}).get("configurable", {})
    shown: Json = {"values": to_plain(values)}
    if (identifier := address.get("checkpoint_id")) is not None:
        shown["checkpoint"] = {"id": identifier, "ns": address.get("checkpoint_ns", "")}
    return shown, {}


def _run_body(assistant: str, config: bodies.ConfigBody | None) -> bodies.RunBody:
    """Make a run that streams what all channels need."""
    body = bodies.RunBody(assistant_id=assistant, config=config, if_not_exists="create")
    body.stream_mode, body.stream_subgraphs = list(WIRE_MODES), True
    checkpoint = ((config and config.configurable) or {}).get("checkpoint_id")
    body.checkpoint_id = checkpoint if isinstance(checkpoint, str) else None
    return body


async def _started(call: ApiCall, body: bodies.RunBody) -> tuple[Json, Json]:
    run = await start_run(replace(call, body=body))
    return {"run_id": run.id}, {"applied_through_seq": await first_number(call, run)}


async def _graph(call: ApiCall) -> str:
    """Return the name of the graph that wrote the thread's state.

    Raises:
        CommandRefused: the thread has had no run.
    """
    assert call.thread is not None
    known = call.thread.metadata.get(GRAPH)
    if len(call.graphs) > 1:
        known = await graph_that_wrote(call.server.system, call.thread_id) or known
    if len(call.graphs) == 1:
        known = next(iter(call.graphs))
    if not isinstance(known, str) or known not in call.graphs:
        raise CommandRefused("invalid_argument", "the thread has no state yet")
    return known


_Handler = Callable[[ApiCall, Any], Awaitable[tuple[Json, Json]]]
_HANDLERS: dict[str, tuple[type, _Handler]] = {
    "run.start": (RunStartParams, _start),
    "input.respond": (RespondParams, _respond),
    "state.fork": (ForkParams, _fork),
    "state.get": (StateParams, _state),
}
_OF_SOCKETS = "subscription."
_NOT_SERVED = ("agent.getTree", "input.inject", "state.listCheckpoints")


def _parsed(said: WireCommand) -> tuple[_Handler, Any]:
    """Return the handler of a command, and its parameters.

    Raises:
        CommandRefused: the method is unknown, or belongs elsewhere; or the parameters are invalid.
    """
    if (found := _HANDLERS.get(said.method)) is None:
        raise _not_served(said.method)
    kind, handle = found
    try:
        params = convert_to(said.params, kind, "params", strict=True)
    except Unprocessable as error:
        raise CommandRefused("invalid_argument", error.detail) from None
    if isinstance(params, RespondParams):
        _ = params.answers
    return handle, params


def _not_served(method: str) -> CommandRefused:
    if method.startswith(_OF_SOCKETS):
        text = f"{method} needs a WebSocket; over HTTP each event stream is one subscription"
        return CommandRefused("not_supported", text)
    if method in _NOT_SERVED:
        return CommandRefused("not_supported", f"{method} is not served")
    served = ", ".join(_HANDLERS)
    text = f"unknown method {method!r}; expected one of {served}"
    return CommandRefused("unknown_command", text)


COMMANDS = Endpoint(
    "POST",
    "/threads/{thread_id}/commands",
    "runs.create",
    command,
    WireResult | WireError,
    WireCommand,
    summary="Execute a command of the streaming protocol",
    may_create=True,
    refuse=_refused,
)
ENDPOINTS = (COMMANDS,)

"""Errors that may pass: which ones another attempt may help against.

An error is judged by what it says itself: the answer of a server (an HTTP status, a status of
gRPC, a code of AWS, an SQLSTATE), the number of an `OSError`, the error that it wraps. Otherwise
the nearest of its classes that is in the table decides, by the package it comes from and its name:
no client is imported. `docs/how-to/retries.md` has the table for users, which is a test too.
"""

import errno
from collections.abc import Iterable
from typing import Any, cast

from actorgraph.errors import CheckpointError
from actorgraph.values.http_errors import headers_of, status_of

_PASSING = """
builtins: ConnectionError TimeoutError BlockingIOError InterruptedError
socket: gaierror herror timeout
ssl: SSLEOFError SSLZeroReturnError SSLSyscallError SSLWantReadError SSLWantWriteError
http: RemoteDisconnected IncompleteRead BadStatusLine
urllib: ContentTooShortError
asyncio: TimeoutError IncompleteReadError
smtplib: SMTPServerDisconnected SMTPConnectError
httpx: HTTPError
httpcore: NetworkError TimeoutException RemoteProtocolError ProxyError
requests: ConnectionError Timeout HTTPError ChunkedEncodingError ContentDecodingError RetryError
urllib3: HTTPError
aiohttp: ClientConnectionError ClientPayloadError ServerTimeoutError ServerDisconnectedError
grpc: RpcError FutureTimeoutError
botocore: ConnectionError HTTPClientError ResponseStreamingError IncompleteReadError ChecksumError
botocore: MetadataRetrievalError ClientError
openai: APIError
anthropic: APIError
psycopg: OperationalError InterfaceError
asyncpg: PostgresConnectionError InterfaceError
redis: RedisError
nats: Error
pymongo: ConnectionFailure
trio: BrokenResourceError TooSlowError
anyio: BrokenResourceError EndOfStream IncompleteRead ConnectionFailed
"""

_LASTING = """
builtins: ValueError TypeError ArithmeticError ImportError LookupError NameError SyntaxError
builtins: RuntimeError ReferenceError StopIteration StopAsyncIteration
concurrent: CancelledError
asyncio: InvalidStateError
http: InvalidURL UnknownProtocol UnknownTransferEncoding UnimplementedFileMode
http: ImproperConnectionState
ftplib: error_perm
httpx: UnsupportedProtocol LocalProtocolError InvalidURL TooManyRedirects CookieConflict
httpcore: UnsupportedProtocol LocalProtocolError
urllib3: HostChangedError UnrewindableBodyError TimeoutStateError ClosedPoolError
urllib3: BodyNotHttplibCompatible InvalidHeader
aiohttp: ContentTypeError TooManyRedirects
grpc: FutureCancelledError
botocore: BotoCoreError
openai: OpenAIError
anthropic: AnthropicError
asyncpg: InternalClientError DataError
psycopg_pool: PoolClosed
redis: AuthenticationError AuthorizationError DataError ResponseError NoPermissionError LockError
nats: AuthorizationError MaxPayloadError BadSubjectError BadSubscriptionError NotJSMessageError
nats: InvalidUserCredentialsError InvalidCallbackTypeError ProtocolError MsgAlreadyAckdError
nats: InvalidInboxPrefix JsonParseError SecureConnRequiredError SecureConnWantedError
nats: SecureConnFailedError
pymongo: PyMongoError
"""

_ANSWERS_OF_REDIS = "BusyLoadingError TryAgainError ClusterDownError MasterDownError ReadOnlyError"


def _table(*texts: tuple[str, bool]) -> dict[tuple[str, str], bool]:
    return {
        (line.partition(":")[0], name): passes
        for text, passes in texts
        for line in text.strip().splitlines()
        for name in line.partition(":")[2].split()
    }


_CLASSES = _table((_PASSING, True), (_LASTING, False), (f"redis: {_ANSWERS_OF_REDIS}", True))
_SAME_AS = {"httpx2": "httpx", "httpcore2": "httpcore"}

_PASSING_ERRNOS = frozenset(
    getattr(errno, name)
    for name in (
        *("EAGAIN", "EWOULDBLOCK", "EINTR", "EBUSY", "ETIMEDOUT", "ENOBUFS", "EADDRNOTAVAIL"),
        *("ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ENOTCONN", "EPIPE", "ESHUTDOWN"),
        *("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH", "EMFILE", "ENFILE"),
        "ESTALE",
    )
    if hasattr(errno, name)
)

_PASSING_STATUSES = frozenset({408, 425, 429, *range(500, 600)})

_GRPC = {
    **dict.fromkeys(("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED"), True),
    **dict.fromkeys(("INTERNAL", "UNKNOWN"), True),  # as an HTTP 500
    **dict.fromkeys(("CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS"), False),
    **dict.fromkeys(("PERMISSION_DENIED", "UNAUTHENTICATED", "FAILED_PRECONDITION"), False),
    **dict.fromkeys(("OUT_OF_RANGE", "UNIMPLEMENTED", "DATA_LOSS"), False),
}

_USING_GRPC = frozenset({"grpc", "grpclib", "google"})

_AWS_TEXT = """
    Throttling ThrottlingException ThrottledException RequestThrottledException RequestThrottled
    TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException
    RequestLimitExceeded BandwidthLimitExceeded LimitExceededException SlowDown
    EC2ThrottledException PriorRequestNotComplete RequestTimeout RequestTimeoutException
    InternalError InternalFailure InternalServerError InternalServerException ServiceUnavailable
    ServiceUnavailableException ModelTimeoutException ModelNotReadyException
    IDPCommunicationError 500 502 503 504
"""
_AWS_CODES = frozenset(_AWS_TEXT.split())

_SQLSTATES = (
    *("08", "40", "53", "55P03", "57014", "57P01", "57P02", "57P03", "57P05"),
    *("25P03", "25006"),
)
"""Beginnings of SQLSTATEs: connections, rollbacks, resources, locks, time limits, shutdowns; and a
session that a failover has left with a read-only server."""

_SQLITE = frozenset({5, 6})  # BUSY, LOCKED
_NO_QUERY = ("IntegrityError", "ProgrammingError", "DataError", "NotSupportedError")
_SSL_REASONS = ("UNEXPECTED_EOF", "BAD_RECORD_MAC", "DECRYPTION_FAILED", "RECORD_LAYER_FAILURE")
_INNER_MAX = 16


def may_pass(error: BaseException) -> bool:
    """Whether another attempt may help against an error; of a group, against each one in it.

    An error of an unknown kind may pass. A certificate that is not accepted never does, however
    deep a client has wrapped its error.
    """
    return _judge(error, _INNER_MAX)


def _judge(error: BaseException, left: int) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return left > 0 and all(_judge(each, left - 1) for each in error.exceptions)
    if not isinstance(error, Exception) or isinstance(error, CheckpointError):
        return False
    names = [(_package(kind), kind.__name__) for kind in type(error).__mro__]
    if ("ssl", "SSLCertVerificationError") in names or (left and _is_refused(error, left)):
        return False
    said = _answer_of(error, names)
    if said is not None:
        return said
    wrapped = _wrapped(error, names)
    if wrapped is not None and left:
        return _judge(wrapped, left - 1)
    return _by_class(error, names, left)


def _by_class(error: Exception, names: list[tuple[str, str]], left: int) -> bool:
    """Judge by the nearest class in the table; of Python's own a passing one counts most."""
    passing = any(_CLASSES.get(name) for name in names if name[0] == "builtins")
    for name in names:
        if name in _CLASSES:
            return _CLASSES[name] or (passing and name[0] == "builtins")
        if name == ("builtins", "OSError"):
            return passing or _may_os_error_pass(error, left)
    return True


def _package(kind: type) -> str:
    root = kind.__module__.partition(".")[0]
    return _SAME_AS.get(root, root)


def _is_refused(error: BaseException, left: int) -> bool:
    """Whether a certificate was refused somewhere below an error."""
    todo, seen = [*_below(error)], {id(error)}
    while todo and left:
        left -= 1
        inner = todo.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        if any(kind.__name__ == "SSLCertVerificationError" for kind in type(inner).__mro__):
            return True
        todo.extend(_below(inner))
    return False


def _below(error: BaseException) -> Iterable[BaseException]:
    """The errors that an error wraps: behind it, or as its reason or argument."""
    found = [error.__cause__, _read(error, "reason"), _read(error, "orig"), *error.args]
    kwargs = _read(error, "kwargs")  # botocore's
    if isinstance(kwargs, dict):
        found.append(cast("dict[str, Any]", kwargs).get("error"))
    return [each for each in found if isinstance(each, BaseException)]


def _answer_of(error: Exception, names: list[tuple[str, str]]) -> bool | None:
    """Judge by the answer that a server gave; None without one."""
    packages = {package for package, _ in names}
    if "botocore" in packages and (aws := _aws(error)) is not None:
        return aws
    if not packages.isdisjoint(_USING_GRPC) and (grpc := _grpc(error)) is not None:
        return grpc
    state = _read(error, "sqlstate") or _read(error, "pgcode")
    if isinstance(state, str) and len(state) == 5:
        return state.startswith(_SQLSTATES)
    if ("sqlite3", "Error") in names:
        code = _read(error, "sqlite_errorcode")
        return isinstance(code, int) and code & 0xFF in _SQLITE
    if any(name == "DatabaseError" for _, name in names) and any(
        name in _NO_QUERY for _, name in names
    ):
        return False
    if "pymongo" in packages and _has_label(error):
        return True
    smtp = _read(error, "smtp_code")
    if isinstance(smtp, int):
        return 400 <= smtp < 500  # "transient negative completion", RFC 5321
    if ("aiohttp", "ContentTypeError") in names:
        return False  # its status is that of a good answer
    status = status_of(error)
    if status is not None and (advice := _advice_of(error)) is not None:
        return advice
    return status in _PASSING_STATUSES if status is not None and 400 <= status < 600 else None


def _advice_of(error: Exception) -> bool | None:
    """Read what a server says of another attempt, as OpenAI's and Anthropic's do; or None."""
    if _read(error, "code") == "insufficient_quota":
        return False
    return {"true": True, "false": False}.get(headers_of(error).get("x-should-retry", ""))


def _aws(error: Exception) -> bool | None:
    response = _read(error, "response")
    if not isinstance(response, dict):
        return None
    answer = cast("dict[str, Any]", response)
    details, meta = answer.get("Error"), answer.get("ResponseMetadata")
    code = cast("dict[str, Any]", details).get("Code") if isinstance(details, dict) else None
    status = cast("dict[str, Any]", meta).get("HTTPStatusCode") if isinstance(meta, dict) else None
    if code in _AWS_CODES:
        return True
    if isinstance(status, int):
        return status in _PASSING_STATUSES
    return None if code is None else False


def _grpc(error: Exception) -> bool | None:
    """Judge by a status of gRPC: of a method `code()`, as grpcio has it, or of an attribute."""
    try:
        code = getattr(error, "code")()  # noqa: B009 - by name
    except Exception:  # noqa: BLE001 - a method of a client may raise anything
        code = None
    for found in (code, _read(error, "grpc_status_code"), _read(error, "status")):
        name = _read(found, "name")
        if isinstance(name, str) and name in _GRPC:
            return _GRPC[name]
    return None


def _has_label(error: Any) -> bool:
    labels = ("RetryableWriteError", "RetryableError", "TransientTransactionError")
    try:
        return any(error.has_error_label(label) for label in labels)
    except Exception:  # noqa: BLE001 - another error of the package
        return False


def _wrapped(error: Exception, names: list[tuple[str, str]]) -> BaseException | None:
    """Return the error that one represents: of a database below, or of urllib's and urllib3's."""
    found = None
    if ("urllib", "URLError") in names or ("urllib3", "MaxRetryError") in names:
        found = _read(error, "reason")
    elif names[0][0] == "sqlalchemy":
        found = _read(error, "orig")
    return found if isinstance(found, BaseException) else None


def _may_os_error_pass(error: BaseException, left: int) -> bool:
    number = _read(error, "errno")
    if any(_package(kind) == "ssl" for kind in type(error).__mro__):
        reason = _read(error, "reason")
        return isinstance(reason, str) and any(part in reason for part in _SSL_REASONS)
    if number is not None:
        return number in _PASSING_ERRNOS
    if error.__cause__ is not None and left:  # of anyio and trio: all addresses have failed
        return _judge(error.__cause__, left - 1)
    return str(error).startswith("Multiple exceptions:")  # asyncio: the same, as a text


def _read(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a property of a client may raise anything
        return None

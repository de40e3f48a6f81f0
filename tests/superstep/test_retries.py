"""Whether a failed task is tried again, and after how long: decisions on data."""

import time

import httpx
import pytest
import requests

from actorgraph.errors import ConflictError, NodeCancelledError, NodeTimeoutError
from actorgraph.superstep.task_failures import next_delay, retry_after
from actorgraph.values.commands import mark_invalid_resume
from actorgraph.values.policies import RetryPolicy, default_retry_on

STEADY = RetryPolicy(jitter=False, retry_on=Exception, max_attempts=99)


def httpx_error(status: int) -> Exception:
    request = httpx.Request("GET", "http://x")
    return httpx.HTTPStatusError(
        "", request=request, response=httpx.Response(status, request=request)
    )


def requests_error(status: int | None) -> Exception:
    if status is None:
        return requests.HTTPError()
    answer = requests.Response()
    answer.status_code = status
    return requests.HTTPError(response=answer)


def client_error(status: int, kind: type[Exception] = Exception, **headers: str) -> Exception:
    """An error as the clients of OpenAI and Anthropic raise them."""
    error = type("APIStatusError", (kind,), {})("no")
    error.status_code = status
    error.response = httpx.Response(status, headers=headers)
    return error


class Rude(ValueError):
    """An error whose attributes raise errors."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


def asking(**headers: str) -> Exception:
    """An error of a response 429 with these headers, named with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client_error(429, **named)


class TestTheWait:
    @pytest.mark.langgraph("F-C9")
    @pytest.mark.parametrize(
        ("attempt", "wait"), [(1, 0.5), (2, 1), (3, 2), (8, 64), (9, 128), (10, 128), (98, 128)]
    )
    def test_it_grows_up_to_its_maximum(self, attempt, wait):
        """
        Half a second, twice as long after each attempt, 128 seconds at most.
        """
        assert next_delay([STEADY], attempt, ValueError(), 0.9) == wait

    @pytest.mark.langgraph("F-C9")
    def test_the_jitter_comes_on_top(self):
        """
        The random part of a second is added to the wait, beyond the maximum too.
        """
        policy = STEADY._replace(jitter=True, max_interval=0.25)

        assert next_delay([policy], 3, ValueError(), 0.75) == 1.0

    def test_a_factor_too_large_for_a_float_means_the_maximum(self):
        """
        A wait that can't be computed is the longest one.
        """
        policy = STEADY._replace(max_attempts=10_000, backoff_factor=1e9)

        assert next_delay([policy], 5_000, ValueError(), 0) == 128

    @pytest.mark.langgraph("F-C9", "L43")
    def test_the_first_call_counts_as_an_attempt(self):
        """
        With three attempts there is a wait after the first and the second, none after the third.
        """
        policy = RetryPolicy(retry_on=ValueError)

        waits = [next_delay([policy], attempt, ValueError(), 0) for attempt in (1, 2, 3)]

        assert [wait is not None for wait in waits] == [True, True, False]


DATE = "Mon, 23 Nov 2026 05:00:30 GMT"
NOW = 1795410000.0
"""Half a minute before DATE."""
ABSURD = (
    "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Mon, 99999999999999999999 Jan 2026 00:00:00 GMT",
    "Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
)
"""Dates that no clock shows."""


@pytest.mark.langgraph("F-C9")
class TestRetryAfter:
    @pytest.mark.parametrize(
        ("error", "wait"),
        [
            (asking(retry_after="20"), 20),
            (asking(Retry_After="1.5"), 1.5),
            (asking(retry_after=DATE), 30),
            (asking(retry_after=DATE, date="Mon, 23 Nov 2026 05:00:10 GMT"), 20),
            (asking(retry_after=DATE.replace("GMT", "-0000")), 30),
            (asking(retry_after=DATE.replace("05:00:30 GMT", "07:00:30 +0200")), 30),
            (asking(retry_after_ms="2500"), 2.5),
            (asking(retry_after_ms="2500", retry_after="9"), 2.5),
            (asking(retry_after_ms="soon", retry_after="9"), 9),
            (asking(retry_after="3600"), 3600),
            (asking(retry_after="0.1"), 0.5),
            (ExceptionGroup("", [asking(retry_after="7"), ValueError(), asking()]), 7),
            (ExceptionGroup("", [asking(retry_after=DATE)]), 30),
        ],
    )
    def test_it_is_the_least_wait(self, error, wait):
        """
        Seconds, milliseconds and a date are read, a date by the server's own clock if it says its
        time; a longer wait of the policy stays.
        """
        assert next_delay([STEADY], 1, error, 0, now=NOW) == wait

    def test_the_time_is_counted_from_1970_where_none_is_given(self):
        """
        A date needs the present time; a caller without dates leaves it out.
        """
        error = asking(retry_after="Thu, 01 Jan 1970 00:00:10 GMT")

        assert next_delay([STEADY], 1, error, 0) == 10

    @pytest.mark.parametrize("text", ["0", "0.0", "0.25"])
    def test_none_and_less_than_a_second_are_waits_too(self, text):
        """
        A server may ask for an attempt at once.
        """
        assert retry_after(asking(retry_after=text), NOW) == float(text)

    @pytest.mark.skipif(not hasattr(time, "tzset"), reason="needs a time zone of the process")
    def test_a_date_without_a_zone_is_in_utc(self, monkeypatch):
        """
        It doesn't depend on the time zone of this machine.
        """
        with monkeypatch.context() as changed:
            changed.setenv("TZ", "EST5")
            time.tzset()
            wait = retry_after(asking(retry_after=DATE.replace("GMT", "-0000")), NOW)
        time.tzset()

        assert wait == 30

    @pytest.mark.parametrize(
        "text",
        [
            "-1",
            "inf",
            "nan",
            "1e3",
            "1_0",
            "3601",
            "99999999999999999999",
            "",
            "soon",
            "٣",
            "Mon, 23 Nov 2026 04:00:00 GMT",
            "Mon, 23 Nov 2099 05:00:00 GMT",
            "Mon, 99 Nov 2026",
            *ABSURD,
        ],
    )
    def test_values_without_sense_are_ignored(self, text):
        """
        A wait that is negative, past, more than an hour or no number is not taken.
        """
        held = type("Held", (Exception,), {"headers": {"Retry-After": text}})("no")

        assert next_delay([STEADY], 1, held, 0, now=NOW) == 0.5

    @pytest.mark.parametrize("text", ABSURD)
    def test_an_absurd_time_of_the_server(self, text):
        """
        A date is read by our clock if the server's own time makes no sense.
        """
        assert next_delay([STEADY], 1, asking(retry_after=DATE, date=text), 0, now=NOW) == 30

    def test_the_maximum_of_the_policy_does_not_cut_it(self):
        """
        `max_interval` bounds the policy's own wait; the jitter still comes on top.
        """
        policy = STEADY._replace(max_interval=1, jitter=True)

        assert next_delay([policy], 9, asking(retry_after="20"), 0.25, now=NOW) == 20.25

    def test_a_deadline_that_would_pass_ends_the_attempts(self):
        """
        A run that would have ended before the server takes another request fails at once; a wait
        of the policy's own goes on.
        """
        assert next_delay([STEADY], 1, asking(retry_after="20"), 0, now=NOW, left=19) is None
        assert next_delay([STEADY], 1, asking(retry_after="20"), 0, now=NOW, left=20) == 20
        assert next_delay([STEADY], 3, asking(), 0, now=NOW, left=1) == 2

    @pytest.mark.parametrize("headers", [None, 5, {}, {"Date": DATE}])
    def test_responses_without_it_change_nothing(self, headers):
        """
        Any object may be an error's response, with or without headers.
        """
        error = type("Odd", (Exception,), {"response": object(), "headers": headers})("no")

        assert next_delay([STEADY], 1, error, 0, now=NOW) == 0.5
        assert next_delay([STEADY], 1, requests_error(None), 0, now=NOW) == 0.5

    def test_headers_beside_a_response_are_found(self):
        """
        A client may keep the headers with the error itself, in a plain dict.
        """
        error = type("Theirs", (Exception,), {"status": 429, "headers": {"RETRY-AFTER": "4"}})("no")

        assert next_delay([STEADY], 1, error, 0, now=NOW) == 4


class TestWhichErrors:
    @pytest.mark.langgraph("F-C9")
    @pytest.mark.parametrize(
        ("error", "again"),
        [
            (ConnectionError(), True),
            (ConnectionResetError(), True),
            (NodeTimeoutError("late", do="wait"), True),
            (RuntimeError(), False),
            (KeyError(), False),
            (ValueError(), False),
            (OSError(), False),
            (TimeoutError(), True),
            (RecursionError(), False),
            (ConflictError("taken", do="load"), False),
            (httpx_error(503), True),
            (httpx_error(404), False),
            (httpx.ConnectTimeout(""), True),
            (requests_error(500), True),
            (requests_error(403), False),
            (requests_error(None), True),
            (httpx_error(429), True),
            (requests_error(429), True),
            (client_error(429), True),
            (client_error(429, ValueError), True),
            (client_error(418, ValueError), False),
            (Rude(), False),
            (ExceptionGroup("", [ConnectionError(), httpx_error(429)]), True),
            (type("Theirs", (Exception,), {})(), True),
            (ExceptionGroup("", [ConnectionError(), httpx_error(500)]), True),
            (ExceptionGroup("", [ConnectionError(), ValueError()]), False),
        ],
        ids=repr,
    )
    def test_by_default_those_that_may_pass(self, error, again):
        """
        The network, servers' 5xx and unknown errors are retried; mistakes are not.
        """
        assert default_retry_on(error) is again

    @pytest.mark.langgraph("F-C9")
    @pytest.mark.parametrize(
        ("retry_on", "error", "again"),
        [
            (ValueError, ValueError(), True),
            (ValueError, UnicodeError(), True),
            (ValueError, KeyError(), False),
            ([KeyError, ValueError], ValueError(), True),
            ((KeyError,), ValueError(), False),
            (lambda e: "again" in str(e), ValueError("again"), True),
            (lambda e: "again" in str(e), ValueError("no"), False),
            (ValueError, ExceptionGroup("", [ValueError()]), True),
            (ValueError, ExceptionGroup("", [ValueError(), KeyError()]), False),
        ],
    )
    def test_a_class_several_or_a_function_say_which(self, retry_on, error, again):
        """
        `retry_on` is a class, a list of classes, or a function of the error.
        """
        policy = RetryPolicy(retry_on=retry_on)

        assert (next_delay([policy], 1, error, 0) is not None) is again

    @pytest.mark.langgraph("F-C9")
    def test_the_first_policy_that_matches_decides(self):
        """
        Of several policies one is taken by the error, and its limits count.
        """
        network = STEADY._replace(retry_on=ConnectionError, initial_interval=1)
        other = STEADY._replace(initial_interval=2, max_attempts=2)

        assert next_delay([network, other], 5, ConnectionError(), 0) == 16
        assert next_delay([network, other], 1, KeyError(), 0) == 2
        assert next_delay([network, other], 2, KeyError(), 0) is None

    def test_a_refused_answer_is_never_retried(self):
        """
        The node would get the same answer again: the question waits for another one.
        """
        error = ValueError("not an integer")
        mark_invalid_resume(error, "how many?")

        assert next_delay([STEADY], 1, error, 0) is None

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
    def test_exits_of_the_program_are_never_retried(self, error):
        """
        Only an Exception is tried again, whatever a policy says.
        """
        policy = RetryPolicy(retry_on=lambda e: True)

        assert next_delay([policy], 1, error, 0) is None

    @pytest.mark.langgraph("F-C14")
    def test_a_node_that_cancels_itself_is_not_retried(self):
        """
        A CancelledError of the node's own making ends the task.
        """
        policy = RetryPolicy(retry_on=Exception)

        assert next_delay([policy], 1, NodeCancelledError("it did", do="don't"), 0) is None

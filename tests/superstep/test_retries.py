"""Whether a failed task is tried again, and after how long: decisions on data."""

import httpx
import pytest
import requests

from actorgraph.errors import ConflictError, NodeCancelledError, NodeTimeoutError
from actorgraph.superstep.task_failures import next_delay
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
            (TimeoutError(), False),
            (RecursionError(), False),
            (ConflictError("taken", do="load"), False),
            (httpx_error(503), True),
            (httpx_error(404), False),
            (httpx.ConnectTimeout(""), True),
            (requests_error(500), True),
            (requests_error(403), False),
            (requests_error(None), True),
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

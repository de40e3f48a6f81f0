"""The OpenAPI, held against the server by thousands of requests about what is there."""

import os
from collections import Counter

import pytest

from actorgraph.web import Limits
from tests.faults.crashes import report, row
from tests.support.every_saver import stored_in
from tests.web.apps import GRAPHS, application
from tests.web.schemas import schemathesis
from tests.web.server import running

EXAMPLES = 50
SEED = int(os.environ.get("SEED", "1"))
NEVER_MADE = {
    "GET /assistants/{assistant_id}/subgraphs/{namespace}",  # the graphs have none inside
    "GET /store/items",  # no two requests have the same key
}
"""Operations that need not have succeeded."""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_answer_is_outside_the_description(kind, tmp_path, request):
    """
    Every operation is tried, streams too, about threads, runs and graphs that are there; none
    fails, and none answers what the OpenAPI doesn't describe.
    """
    limits = Limits(stream_s=0.2)
    with stored_in(request, kind, tmp_path) as place:
        # A run of "sleep" never ends, nor does a request that waits for it.
        graphs = {name: graph for name, graph in GRAPHS.items() if name != "sleep"}
        saver = place.again()
        app = application(tmp_path / "runs.db", saver=saver, graphs=graphs, limits=limits)
        with running(app) as url:
            found = schemathesis(
                url,
                tmp_path,
                phases="coverage,fuzzing",
                examples=EXAMPLES,
                seed=SEED,
                leads=True,
                limit_s=1800,
            )

    statuses: Counter[str] = Counter()
    for told in found.answers.values():
        statuses.update({f"{status[0]}xx": count for status, count in told.items()})
    never = {name for name, told in found.answers.items() if not {"200", "204"} & told.keys()}
    figures = f"{found.operations} operations, {found.cases} requests made up, answers: "
    figures += ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    figures += f", outside the description: {0 if found.passed else 'some'}"
    report(request.config, "OpenAPI", row("schemathesis", kind, figures))
    assert found.passed, found.output[-8000:]
    assert never <= NEVER_MADE
    assert "5xx" not in statuses

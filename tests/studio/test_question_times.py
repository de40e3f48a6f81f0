"""Pages about threads that do something by themselves: questions that are due, and sleeps."""

from datetime import timedelta

import pytest

from actorgraph import ActorSystem, InMemorySaver, interrupt, sleep
from actorgraph.studio import Studio
from actorgraph.web import running
from tests.studio.conftest import TOKEN, Place, chain


async def asks(_):
    hours = [timedelta(hours=n, minutes=30) for n in (1, 2)]
    return {"log": [interrupt("Approve?", due=hours[1], otherwise="no", remind=hours[:1])]}


async def sleeps(_):
    await sleep(timedelta(days=30))
    return {"log": ["awake"]}


@pytest.fixture
async def timed():
    """
    A studio over a question that is due, and a sleep.
    """
    system = ActorSystem({"asks": chain(asks), "sleeps": chain(sleeps)}, saver=InMemorySaver())
    async with running(system):
        place = Place(system, Studio(system, token=TOKEN), None)
        async with place.client:
            await place.client.get(f"/?token={TOKEN}")
            for name in ("asks", "sleeps"):
                await place.ran(name, name)
            yield place


def row_of(html: str, name: str) -> str:
    """The row of a thread in the list."""
    return html[html.index(f">{name}</a>") :].partition("</tr>")[0]


async def test_a_question_says_when_it_answers_itself(timed):
    """
    The words are beside its form, and beside the thread in the list.
    """
    page, row = await timed.get("/threads/asks"), row_of(await timed.get("/threads"), "asks")

    text = "answers itself in 2 hours, reminds in 1 hour"
    assert text in page
    assert ">Answer</button>" in page
    assert text in row
    assert "Approve?" in row
    assert ">waiting for a person</span>" in row


async def test_a_sleep_is_no_question(timed):
    """
    It has no form, its thread is found by its own status, and a button ends it early.
    """
    page, row = await timed.get("/threads/sleeps"), row_of(await timed.get("/threads"), "sleeps")

    assert "<strong>sleeps</strong> sleeps until 20" in page
    assert ">Answer</button>" not in page
    assert "sleeps until 20" in row
    assert "sleeps_until" not in row
    assert ">sleeping</span>" in row
    assert '/threads/sleeps"' in await timed.get("/threads?status=sleeping")
    assert '/threads/sleeps"' not in await timed.get("/threads?status=waiting")
    identifier = page.partition('name="interrupt" value="')[2][:32]
    await timed.post("/threads/sleeps/answer", interrupt=identifier)
    for run in await timed.system.runs(thread_id="sleeps"):
        await run.wait()
    assert "awake" in await timed.get("/threads/sleeps")

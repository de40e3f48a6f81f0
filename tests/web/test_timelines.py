"""The route for a thread's timeline."""

from tests.web.test_requests import client

__all__ = ["client"]


class TestTimeline:
    async def test_tasks_are_listed_with_their_times(self, client):
        """
        The steps of a run come newest first; a failed task has its error and both of its times.
        """
        await client.post("/threads", json={"thread_id": "t"})
        assert (await client.get("/threads/t/timeline")).json() == []
        await client.post("/threads/t/runs/wait", json={"assistant_id": "fail", "input": {}})
        steps = (await client.get("/threads/t/timeline")).json()

        (task,) = steps[0]["tasks"]
        assert (task["status"], task["error"]) == ("failed", "ValueError('broken')")
        assert task["attempts"][0]["start"] <= task["attempts"][0]["end"] == task["end"]
        assert [step["step"] for step in steps] == sorted((s["step"] for s in steps), reverse=True)

    async def test_an_unknown_thread_is_not_found(self, client):
        """
        A thread that doesn't exist has no timeline.
        """
        assert (await client.get("/threads/none/timeline")).status_code == 404

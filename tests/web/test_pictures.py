"""Routes for pictures and topologies of graphs."""

from tests.web.test_requests import client

__all__ = ["client"]


class TestPictures:
    async def test_an_svg_is_sent(self, client):
        """
        The picture is an SVG document that can't run scripts; the style sheet can be left out.
        """
        told = await client.get("/assistants/log/graph.svg?xray=true")
        plain = await client.get("/assistants/log/graph.svg?style=false")

        assert told.headers["content-type"].startswith("image/svg+xml")
        assert "sandbox" in told.headers["content-security-policy"]
        assert 'data-node="first"' in told.text
        assert ("<style" in told.text, "<style" in plain.text) == (True, False)

    async def test_the_topology_is_sent(self, client):
        """
        The report and the nodes are data; an unknown graph is not found.
        """
        told = (await client.get("/assistants/log/topology")).json()

        assert (told["report"], told["nodes"][1]["name"]) == ([], "first")
        assert (await client.get("/assistants/none/topology")).status_code == 404

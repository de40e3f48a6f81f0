"""actorgraph.studio.request_guard: who gets to a page, and with which headers."""

import pytest
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from actorgraph.studio.__main__ import arguments, served_hosts
from actorgraph.studio.request_guard import COOKIE, LOOPBACK, StudioGuard, host_name, is_same_origin

TOKEN = "t0ken"  # noqa: S105 - of tests


def client(token=TOKEN, **options):
    guard = StudioGuard(PlainTextResponse("page"), token=token, hosts=LOOPBACK)
    return TestClient(guard, base_url="http://127.0.0.1:8124", **options)


def in_session():
    made = client()
    assert made.get(f"/threads?token={TOKEN}").text == "page"
    return made


class TestSessions:
    def test_the_token_is_exchanged_for_another_value(self):
        """
        The address with the token redirects to the one without, with a cookie of another value.
        """
        found = client().get(f"/threads?a=1&token={TOKEN}", follow_redirects=False)

        cookie = found.headers["set-cookie"]
        assert (found.status_code, found.headers["location"]) == (303, "/threads?a=1")
        assert TOKEN not in cookie
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}

    @pytest.mark.parametrize("query", ["", "?token=", "?token=other"])
    def test_without_the_token_nothing_is_shown(self, query):
        """
        A request without a session gets 401 and no page.
        """
        found = client().get(f"/threads{query}")

        assert found.status_code == 401
        assert "page" not in found.text

    def test_a_made_up_session_is_refused(self):
        """
        A cookie counts only if this process has made it.
        """
        found = client(cookies={f"{COOKIE}_8124": "x" * 43}).get("/threads")

        assert found.status_code == 401

    def test_a_redirect_stays_on_this_server(self):
        """
        A path that begins with two slashes isn't taken for another server's address.
        """
        found = client().get(
            f"http://127.0.0.1:8124//evil.example/?token={TOKEN}", follow_redirects=False
        )

        assert found.headers["location"].startswith("/evil.example")

    def test_an_application_may_authenticate_itself(self):
        """
        Without a token every request of an allowed host goes on to the application's rules.
        """
        assert client(token=None).get("/threads").text == "page"

    def test_studios_on_other_ports_keep_their_sessions(self):
        """
        Browsers send cookies to every port of a host: each studio's has another name.
        """
        one = in_session()
        other = StudioGuard(PlainTextResponse("other"), token=TOKEN, hosts=LOOPBACK)
        second = TestClient(other, base_url="http://127.0.0.1:9000", cookies=one.cookies)
        second.get(f"/?token={TOKEN}")
        one.cookies.update(second.cookies)

        assert one.get("/threads").status_code == 200


class TestOrigins:
    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Origin": "http://127.0.0.1:8124"}, 200),
            ({"Origin": "http://127.0.0.1:8124", "Sec-Fetch-Site": "same-origin"}, 200),
            ({}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "none"}, 403),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://127.0.0.1:9999"}, 403),
            ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, 403),
        ],
    )
    def test_unsafe_methods_must_come_from_the_studio(self, headers, status):
        """
        A POST of another site, or of another port, is refused even with the session's cookie.
        """
        assert in_session().post("/threads", headers=headers).status_code == status

    @pytest.mark.parametrize(
        ("host", "status"),
        [
            ("127.0.0.1:8124", 200),
            ("LocalHost:8124", 200),
            ("[::1]:8124", 200),
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("", 403),
        ],
    )
    def test_foreign_hosts_are_refused(self, host, status):
        """
        A name that resolves to this machine reaches nothing unless it is allowed.
        """
        assert in_session().get("/threads", headers={"Host": host}).status_code == status

    @pytest.mark.parametrize(
        ("host", "name"),
        [("A.Example:80", "a.example"), ("[::1]", "[::1]"), ("[::1]:80", "[::1]"), ("x", "x")],
    )
    def test_a_host_is_compared_without_its_port(self, host, name):
        """
        IPv6 addresses keep their brackets.
        """
        assert host_name(host) == name

    def test_equal_names_with_other_cases_are_one_origin(self):
        """
        Host names have no case.
        """
        assert is_same_origin(Headers({"origin": "http://LOCALHOST:1", "host": "localhost:1"}))


class TestHeaders:
    @pytest.mark.parametrize("path", ["/threads", "/none"])
    def test_each_answer_has_the_policy(self, path):
        """
        Pages, refusals and errors forbid inline scripts, other servers and frames.
        """
        found = (in_session() if path == "/threads" else client()).get(path).headers

        policy = found["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert found["x-content-type-options"] == "nosniff"
        assert found["referrer-policy"] == "same-origin"


class TestTheCommand:
    @pytest.mark.parametrize(("host", "name"), [("192.0.2.1", "192.0.2.1"), ("::1", "[::1]")])
    def test_the_printed_address_is_served(self, host, name):
        """
        The address to bind to is one of the allowed hosts, besides those of the arguments.
        """
        hosts = served_hosts(arguments(["--host", host, "--allow-host", "app.example"]))

        assert {name, "app.example", *LOOPBACK} == set(hosts)

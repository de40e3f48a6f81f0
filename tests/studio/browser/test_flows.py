"""The studio in a real browser, under its strict policy: what a person does there."""

import re

import pytest

from tests.studio.browser.app import HOSTILE, TOKEN
from tests.studio.browser.conftest import serving, watched

AXE = "axe_core_python.sync_playwright"


def status(page, name):
    """Wait until the thread of a page has a status."""
    page.wait_for_selector(f"#thread-status .status.{name}")


def values_of(page):
    """The texts of the values that a page shows."""
    return page.locator("#state > details pre").all_inner_texts()


def test_a_run_is_seen_live(view):
    """
    Nodes light up while they run, and the page ends with the stored steps, without a reload.
    """
    page = view.start("steps", "live")

    page.wait_for_selector('[data-node="search"].running')
    page.wait_for_selector('[data-node="write"].running')
    assert page.locator('[data-node="search"].done').count() >= 1
    status(page, "idle")
    assert page.locator("ol.steps li").count() == 5
    assert page.locator("svg.waterfall .bar.done").count() == 3


def test_tokens_are_shown(view):
    """
    The tokens of a chat model appear in the page of its thread.
    """
    page = view.start("chat", "tokens", '{"messages": []}')

    page.wait_for_selector("#tokens:has-text('reader')")
    status(page, "idle")


def test_threads_are_found(view):
    """
    A prefix and a status leave the threads that match.
    """
    view.start("steps", "found-1")
    page = view.start("ask", "found-2")
    status(page, "interrupted")

    page = view.open("/threads?prefix=found")
    assert page.locator("tbody tr").count() == 2
    page.select_option("select[name=status]", "interrupted")
    page.click("text=Search")
    assert page.locator("tbody tr").all_inner_texts()[0].startswith("found-2")
    assert page.locator("tbody tr").count() == 1


def test_a_question_is_answered(view):
    """
    The form of the question's schema is filled in, and the thread ends with the answer.
    """
    page = view.start("ask", "question")
    status(page, "interrupted")
    page.reload()
    page.check("input[name=ok]")
    page.fill("input[name=amount]", "12.5")
    page.select_option("select[name=why]", label='"price"')
    page.click("text=Answer >> nth=-1")

    status(page, "idle")
    page.reload()
    assert "approved 12.5" in "".join(values_of(page))


def test_an_edit_forks(view):
    """
    Values written at an older step run on from there on a branch; the old steps stay.
    """
    page = view.start("steps", "fork")
    status(page, "idle")
    page.reload()
    page.locator("ol.steps a", has_text="then write").click()
    page.click("summary:has-text('Edit')")
    page.fill("textarea[name=values]", '{"log": ["edited"]}')
    page.select_option("select[name=then]", "run")
    page.click("text=Write >> nth=-1")

    page.wait_for_selector("ol.steps .status:has-text('branch')")
    status(page, "idle")
    page.reload()
    assert "edited" in "".join(values_of(page))


def test_a_step_is_run_again(view):
    """
    "Run again from here" calls the following nodes again, on a branch.
    """
    page = view.start("steps", "again")
    status(page, "idle")
    page.reload()
    page.locator("ol.steps a", has_text="then search").click()
    page.click("text=Run again from here")

    page.wait_for_selector("ol.steps .status:has-text('branch')")
    page.wait_for_selector('[data-node="write"].done')
    status(page, "idle")


def test_a_failed_thread_is_retried(view):
    """
    The error is shown, and a retry ends the thread.
    """
    page = view.start("fail", "failed")
    status(page, "error")
    page.reload()
    assert "broken" in page.inner_text(".notice.error")
    page.click("text=Retry")

    status(page, "idle")


def test_hostile_values_stay_text(view):
    """
    Markup in ids, names, errors, values and items runs nowhere.
    """
    page = view.start(
        "steps", HOSTILE, f'{{"log": ["{HOSTILE.replace(chr(34), chr(92) + chr(34))}"]}}'
    )
    status(page, "idle")
    for path in ("/threads", "/runs", "/store", "/system", "/graphs/steps"):
        page = view.open(path)
        assert page.evaluate("window.hit") is None
    assert "onerror" in view.open("/store").inner_text("main")


def test_a_page_of_another_site_changes_nothing(view, chromium):
    """
    A form on another origin that posts to the studio is refused, even with the session.
    """
    page = view.start("steps", "target")
    status(page, "idle")
    foreign = view.page.context.new_page()
    action = f"{view.server.url}/threads/target/delete"
    foreign.route(
        "http://evil.example/",
        lambda route: route.fulfill(
            content_type="text/html", body=f'<form method=post action="{action}"><button>x</button>'
        ),
    )
    foreign.goto("http://evil.example/")
    foreign.click("button")
    foreign.wait_for_load_state()

    assert "h1" in view.open("/threads/target").content()


def test_the_page_reconnects_after_a_restart(chromium, tmp_path):
    """
    The server is killed while a run is shown: the page of the next one shows its end.
    """
    with serving(tmp_path / "runs.db") as server, watched(chromium, server) as view:
        page = view.start("steps", "restart")
        page.wait_for_selector('[data-node="search"].running')
        server.kill()
        server.start()
        page = view.open(f"/threads?token={TOKEN}")
        page = view.open("/threads/restart")

        status(page, "idle")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(chromium, server, scheme):
    """
    Axe finds nothing to mend on any page, in light and in dark.
    """
    axe = pytest.importorskip(AXE, reason="axe is not installed").Axe()
    with watched(chromium, server, color_scheme=scheme) as view:
        page = view.start("ask", f"axe-{scheme}")
        status(page, "interrupted")
        page = view.start("fail", f"axe-fail-{scheme}")
        found = []
        for path in (
            *("/threads", f"/threads/axe-{scheme}", f"/threads/axe-fail-{scheme}", "/runs"),
            *("/graphs", "/graphs/nested?xray=all", "/store", "/system", "/threads/none"),
        ):
            page = view.open(path)
            found += [
                (path, one["id"], [node["html"][:100] for node in one["nodes"][:3]])
                for one in axe.run(page)["violations"]
            ]
        assert found == []


def test_long_threads_are_paged(view):
    """
    A thread of 2,000 steps shows a page of them, with a link to older ones.
    """
    page = view.start("loop", "long")
    page.wait_for_selector("#thread-status .status.idle", timeout=60_000)
    before = view.server.cpu_s()
    page.reload()
    spent = view.server.cpu_s() - before

    assert page.locator("ol.steps li").count() == 50
    page.click("text=Older steps")
    assert re.search(r"then count", page.inner_text("ol.steps"))
    assert spent < 0.2

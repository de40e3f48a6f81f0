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
    status(page, "ended")
    assert page.locator("ol.steps li").count() == 5
    assert page.locator("ol.waterfall .bar.done").count() == 3


def test_tokens_are_shown(view):
    """
    The tokens of a chat model appear in the page of its thread.
    """
    page = view.start("chat", "tokens", '{"messages": []}')

    page.wait_for_selector("#tokens:has-text('reader')")
    status(page, "ended")


def test_threads_are_found(view):
    """
    A prefix and a status leave the threads that match.
    """
    view.start("steps", "found-1")
    page = view.start("ask", "found-2")
    status(page, "waiting")

    page = view.open("/threads?prefix=found")
    assert page.locator("tbody tr").count() == 2
    page.select_option("select[name=status]", "waiting")
    page.click("text=Search")
    assert page.locator("tbody tr").all_inner_texts()[0].strip().startswith("found-2")
    assert page.locator("tbody tr").count() == 1


def test_a_question_is_answered(view):
    """
    The form of the question's schema is filled in, and the thread ends with the answer.
    """
    page = view.start("ask", "question")
    status(page, "waiting")
    page.reload()
    page.check("input[name=ok]")
    page.fill("input[name=amount]", "12.5")
    page.select_option("select[name=why]", label="price")
    page.click("text=Answer >> nth=-1")

    status(page, "ended")
    page.reload()
    assert "approved 12.5" in "".join(values_of(page))


def test_an_edit_forks(view):
    """
    Values written at an older step run on from there on a branch; the old steps stay.
    """
    page = view.start("steps", "fork")
    status(page, "ended")
    page.reload()
    page.locator("ol.steps a", has_text="then write").click()
    page.click("summary:has-text('Edit')")
    page.fill("textarea[name=values]", '{"log": ["edited"]}')
    page.select_option("select[name=then]", "run")
    page.click("text=Write >> nth=-1")

    page.wait_for_selector("ol.steps .status:has-text('branch')")
    status(page, "ended")
    page.reload()
    assert "edited" in "".join(values_of(page))


def test_a_step_is_run_again(view):
    """
    "Run again from here" calls the following nodes again, on a branch.
    """
    page = view.start("steps", "again")
    status(page, "ended")
    page.reload()
    page.locator("ol.steps a", has_text="then search").click()
    page.click("text=Run again from here")

    page.wait_for_selector("ol.steps .status:has-text('branch')")
    page.wait_for_selector('[data-node="write"].done')
    status(page, "ended")


def test_a_failed_thread_is_retried(view):
    """
    The error is shown, and a retry ends the thread.
    """
    page = view.start("fail", "failed")
    status(page, "failed")
    page.reload()
    assert "broken" in page.inner_text(".notice.error")
    page.click("text=Retry")

    status(page, "ended")


def test_hostile_values_stay_text(view):
    """
    Markup in ids, names, errors, values and items runs nowhere.
    """
    page = view.start(
        "steps", HOSTILE, f'{{"log": ["{HOSTILE.replace(chr(34), chr(92) + chr(34))}"]}}'
    )
    status(page, "ended")
    for path in ("/threads", "/runs", "/store", "/system", "/graphs/steps"):
        page = view.open(path)
        assert page.evaluate("window.hit") is None
    assert "onerror" in view.open("/store").inner_text("main")


def test_a_page_of_another_site_changes_nothing(view, chromium):
    """
    A form on another origin that posts to the studio is refused, even with the session.
    """
    page = view.start("steps", "target")
    status(page, "ended")
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
        page = view.start("slow", "restart")
        page.wait_for_selector('[data-node="linger"].running')
        server.kill()
        server.start()
        page = view.open(f"/threads?token={TOKEN}")
        page = view.open("/threads/restart")

        status(page, "ended")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(chromium, server, scheme, width):
    """
    Axe finds nothing to mend on any page, in light and in dark, on a desk and on a phone, and no
    page is wider than the screen.
    """
    axe = pytest.importorskip(AXE, reason="axe is not installed").Axe()
    with watched(chromium, server, color_scheme=scheme) as view:
        name = f"axe-{scheme}-{width}"
        page = view.start("ask", name)
        status(page, "waiting")
        page = view.start("fail", f"fail-{name}")
        page = view.open("/runs")
        run = page.locator("td.first a").first.get_attribute("href").partition("/studio")[2]
        page.set_viewport_size({"width": width, "height": 900})
        found = []
        for path in (
            *("/threads", f"/threads/{name}", f"/threads/fail-{name}", "/runs", run, "/graphs"),
            *("/graphs/nested?xray=all", "/store", "/system", "/threads/none"),
            f"/compare?thread={name}&thread=fail-{name}",
        ):
            page = view.open(path)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append((path, "is wider than the screen"))
            found += [
                (path, one["id"], [node["html"][:100] for node in one["nodes"][:3]])
                for one in axe.run(page)["violations"]
            ]
        assert found == []


def test_two_threads_are_compared(view):
    """
    Two threads that are selected in the list stand side by side, key by key and step by step.
    """
    view.start("steps", "pair-1")
    page = view.start("nested", "pair-2")
    status(page, "ended")
    page = view.open("/threads?prefix=pair")
    for name in ("pair-1", "pair-2"):
        page.check(f"[aria-label='Select thread {name}']")
    page.click("text=Compare two selected")

    page.wait_for_selector(".key.changed")
    assert "1 of 1 keys differ" in page.inner_text("main")
    assert page.locator("table.pairs tr.changed").count() >= 1


def test_a_run_leads_from_the_list_to_its_steps(view):
    """
    The id of a run is a link to its page, and its steps are links to the thread's.
    """
    page = view.start("steps", "linked")
    status(page, "ended")
    page = view.open("/runs?prefix=linked")
    page.click("td.first a")
    assert "Its steps" in page.inner_text("main")
    page.click("ol.steps a >> nth=0")

    assert page.inner_text("h1") == "linked"
    assert page.locator("ol.steps a[aria-current=step]").count() == 1


def test_filters_stay_in_the_address(view):
    """
    A search can be sent to a colleague: its address has the filters, which the form shows again.
    """
    view.start("steps", "kept-1")
    page = view.open("/threads")
    page.fill("input[name=prefix]", "kept")
    page.select_option("select[name=graph]", "steps")
    page.click("text=Search")
    page.goto(page.url)

    assert page.input_value("input[name=prefix]") == "kept"
    assert page.input_value("select[name=graph]") == "steps"
    assert "1-1 of 1" in page.inner_text("main")
    assert "ago" in page.inner_text("tbody time >> nth=0") or "now" in page.inner_text("tbody")
    assert page.get_attribute("tbody time >> nth=0", "title").startswith("20")


def test_the_system_says_when_to_worry(view):
    """
    The figures refresh by themselves, each with a sentence and the name of its alert.
    """
    page = view.open("/system")
    page.wait_for_selector(".chart svg polyline", timeout=40_000)

    assert page.locator(".facts .card").count() >= 9
    assert "RunIsParked" in page.inner_text("#figures")
    assert "ms" in page.locator(".chart:has-text('Commit latency')").inner_text()


def test_long_threads_are_paged(view):
    """
    A thread of 2,000 steps shows a page of them, with a link to older ones.
    """
    page = view.start("loop", "long")
    page.wait_for_selector("#thread-status .status.ended", timeout=60_000)
    before = view.server.cpu_s()
    page.reload()
    spent = view.server.cpu_s() - before

    assert page.locator("ol.steps li").count() == 50
    page.click("text=Older steps")
    assert re.search(r"then count", page.inner_text("ol.steps"))
    assert spent < 0.2


def test_a_conversation_is_led(view):
    """
    A thread is started by its graph's form, its messages are shown with the calls of tools, and a
    further message is sent below them; markup in them runs nowhere.
    """
    page = view.open("/start/assistant")
    page.fill("textarea[name=messages]", "When does a train go?")
    page.click("main button.main")
    page.wait_for_selector(".message.assistant strong:has-text('Vienna')")
    status(page, "ended")
    assert page.inner_text(".message.user .said") == "When does a train go?"
    assert page.locator("details.call").count() == 2
    page.click("details.call summary >> nth=0")
    assert "RJ 63" in page.inner_text("details.call >> nth=0")
    assert page.locator("details.call img[src^='data:image/png']").count() == 1

    page.fill("textarea[name=message]", "And tomorrow?")
    page.click("form.send button")
    page.wait_for_selector(".message.user >> nth=1")
    page.wait_for_selector(".message.assistant >> nth=3")
    assert page.evaluate("window.hit") is None


def test_tokens_give_way_to_their_message(view):
    """
    The text of a model appears while it is written, and is there once when it is stored.
    """
    page = view.start("chat", "once", '{"messages": []}')

    page.wait_for_selector("#talk .message.assistant:has-text('reader of tokens')")
    page.wait_for_selector("#tokens.idle", state="attached")
    assert page.locator(".message:has-text('reader of tokens')").count() == 1


def test_a_nested_question_is_answered(view):
    """
    A question appears without a reload, its lists grow by rows, an error is beside its field with
    the other texts kept, and the mended answer is taken.
    """
    page = view.start("order", "nested-order")
    page.wait_for_selector("#asked legend:has-text('to')")
    page.click("text=Add to Items")
    page.click("text=Add to Items")
    page.fill("[name='items/0/name']", "lamp")
    page.click("text=Add to Tags >> nth=0")
    page.fill("[name='items/0/tags/0']", "blue")
    page.fill("[name='items/1/name']", "spoon")
    page.fill("[name='items/1/count']", "99")
    page.click("text=Answer >> nth=-1")

    page.wait_for_selector(".wrong")
    assert page.locator("[aria-invalid=true]").count() == 2
    assert page.input_value("[name='items/0/tags/0']") == "blue"
    assert page.url.endswith("/threads/nested-order")
    page.fill("[name='to/street']", "Elm 1")
    page.locator("[data-remove]").last.click()
    page.click("text=Answer >> nth=-1")
    status(page, "ended")
    page.reload()
    assert '"tags":["blue"]' in "".join(values_of(page)).replace("\\", "")


def test_a_tool_call_is_reviewed(view):
    """
    A question of middleware offers its decisions; an edit changes the arguments.
    """
    page = view.start("review", "reviewed", '{"messages": [{"role": "user", "content": "go"}]}')
    page.check("[data-choice=edit]")
    page.fill("[name='0/args/to']", "eve@example.com")
    page.click("text=Answer >> nth=-1")

    page.wait_for_selector(".message.assistant:has-text('eve@example.com')")
    assert "edited_action" in page.inner_text(".message.assistant")


def test_a_link_makes_no_page_say_anything(view):
    """
    The text of an error comes from the server's own answer, never from the address.
    """
    view.start("steps", "plain")
    for path in ("/threads/plain", "/runs", "/store", "/threads"):
        page = view.open(f"{path}?problem=call+0900+now&namespace=call+0900+now")
        assert "call 0900" not in "".join(page.locator("[role=alert]").all_inner_texts())


def test_a_stream_that_has_ended_is_not_asked_for_again(view):
    """
    After the end of the run the page closes its stream.
    """
    page = view.start("steps", "once-streamed")
    page.wait_for_selector("#live-status:has-text('ended')")
    page.wait_for_timeout(4000)

    assert len([url for url in view.requests if "once-streamed/stream" in url]) == 1


def test_long_conversations_are_paged(view):
    """
    A thread of 2,000 messages shows the newest ones within 200 ms, with a link to older ones.
    """
    page = view.start("long-talk", "long-talk", '{"messages": []}')
    page.wait_for_selector("#thread-status .status.ended", timeout=60_000)
    page.wait_for_selector(".message:has-text('answer 999')")
    times = []
    for _ in range(3):
        before = view.server.cpu_s()
        page.reload()
        times.append(view.server.cpu_s() - before)

    assert page.locator(".message").count() == 50
    page.click("text=Older messages")
    page.wait_for_selector(".message:has-text('answer 974')")
    assert min(times) < 0.2


def test_a_long_conversation_of_as_many_steps_is_paged(view):
    """
    A thread of 2,000 messages in 2,000 steps shows the newest ones of both within 200 ms.
    """
    view.start("turns", "turns", '{"messages": []}')
    view.open("/graphs")  # a page that doesn't follow the run
    page = view.page
    while "status ended" not in page.request.get(f"{view.server.url}/threads/turns/steps").text():
        page.wait_for_timeout(500)
    view.open("/threads/turns")
    page.wait_for_selector(".message:has-text('said 1999')")
    times = []
    for _ in range(3):
        before = view.server.cpu_s()
        page.reload()
        times.append(view.server.cpu_s() - before)

    assert page.locator(".message").count() == 50
    assert page.locator("ol.steps li").count() == 50
    assert page.inner_text("ol.steps li >> nth=1").split()[:3] == ["1999", "then", "turn"]
    assert min(times) < 0.2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_conversations_are_accessible(chromium, server, scheme, width):
    """
    Axe finds nothing on a thread with messages, with a form, and on a new thread's page; no page
    is wider than its window.
    """
    axe = pytest.importorskip(AXE, reason="axe is not installed").Axe()
    name = f"axe-{scheme}-{width}"
    with watched(chromium, server, color_scheme=scheme) as view:
        page = view.start("assistant", f"{name}-a", '{"messages": [["user", "hi"]]}')
        status(page, "ended")
        page = view.start("review", f"{name}-r", '{"messages": [["user", "hi"]]}')
        status(page, "waiting")
        page = view.start("order", f"{name}-o")
        status(page, "waiting")
        page.set_viewport_size({"width": width, "height": 900})
        found = []
        for path in (*(f"/threads/{name}-{one}" for one in "aro"), "/start/order"):
            page = view.open(path)
            found += [(path, one["id"]) for one in axe.run(page)["violations"]]
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert found == []

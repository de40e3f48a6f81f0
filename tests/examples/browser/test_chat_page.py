"""The chat of the examples in a real browser: what a person sees, whatever the server does."""

import signal

import pytest

from chat.graph import ANSWER
from tests.examples.browser.conftest import chat_page, chat_server, line_to

AXE = "axe_core_python.sync_playwright"
HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
TOO_LARGE = """() => {
    const { scrollWidth, scrollHeight } = document.documentElement;
    return scrollWidth > innerWidth || scrollHeight > innerHeight;
}"""
WATCH = """() => {
    window.seen = [];
    window.most = 0;
    new MutationObserver(() => {
        const shown = document.querySelectorAll("#messages .ai > div");
        window.most = Math.max(window.most, shown.length);
        for (const one of shown) window.seen.push(one.textContent);
    }).observe(document.querySelector("#messages"), {
        subtree: true, childList: true, characterData: true,
    });
}"""
TAKE = """async (events) => {
    const { Messages } = await import("/messages.js");
    const messages = new Messages(() => {});
    for (const [name, data] of events) messages.take(name, data);
    return [...messages.all.values()].map((one) => [one.id, one.content, one.cut]);
}"""
SLOW = ("--word-s", "0.08")


def send(page, text):
    page.fill("#text", text)
    page.press("#text", "Enter")


def answers(page):
    return page.locator("#messages .ai > div").all_inner_texts()


def wait_for_words(page, count):
    """Wait until the answer that is being written has so many words."""
    page.wait_for_function(
        "count => document.querySelector('#messages .writing > div')"
        "?.textContent.split(' ').length > count",
        arg=count,
    )


def wait_for_end(page):
    page.wait_for_selector("#send:visible")
    page.wait_for_function("() => document.querySelectorAll('.writing').length === 0")


class TestAnswers:
    def test_an_answer_is_shown_while_it_is_written(self, view):
        """
        Words appear one after the other, and at the end the answer is whole, also after a reload.
        """
        page = view.page
        send(page, "Hello")
        wait_for_words(page, 3)
        early = page.locator("#messages .writing > div").inner_text()
        wait_for_end(page)

        assert ANSWER.format(text="Hello").startswith(early.rstrip())
        assert len(early) < len(ANSWER)
        assert answers(page) == [ANSWER.format(text="Hello")]
        page.reload()
        page.wait_for_selector("#messages .ai")
        assert answers(page) == [ANSWER.format(text="Hello")]
        assert page.inner_text("#chats a[aria-current]") == "Hello"

    def test_a_page_that_is_opened_in_mid_sentence_goes_on(self, view):
        """
        A reload while the answer is written shows all of it, once.
        """
        page = view.page
        send(page, "Reload")
        wait_for_words(page, 5)
        page.reload()
        page.wait_for_selector("#messages .ai")
        wait_for_end(page)

        assert answers(page) == [ANSWER.format(text="Reload")]

    def test_an_answer_is_stopped(self, view):
        """
        Escape ends the run; the text so far stays on the page, and the next message is answered.
        """
        page = view.page
        send(page, "Stop")
        wait_for_words(page, 5)
        page.keyboard.press("Escape")
        page.wait_for_selector("#messages .stopped")

        assert len(answers(page)[0]) < len(ANSWER)
        assert page.inner_text("#status") == "Stopped."
        send(page, "Again")
        page.wait_for_function("() => document.querySelectorAll('#messages .ai').length === 2")
        wait_for_end(page)
        assert answers(page)[-1] == ANSWER.format(text="Again")

    def test_a_question_is_answered_by_its_form(self, view):
        """
        The form has the fields of the question's schema, with their kinds and defaults.
        """
        page = view.page
        send(page, "book a room")
        page.wait_for_selector("#question:visible")
        page.reload()
        page.wait_for_selector("#question:visible")
        page.select_option("select[name=room]", label="suite")
        page.fill("input[name=nights]", "2")
        page.uncheck("input[name=breakfast]")
        page.fill("input[name=note]", HOSTILE)
        page.click("text=Answer >> nth=-1")
        page.wait_for_selector("#messages .ai")
        wait_for_end(page)

        text = f"Done: a suite room for 2 nights, without breakfast. Your note: {HOSTILE}"
        assert answers(page) == [text]
        assert page.evaluate("window.hit") is None


def interrupted_by(number, page, server):
    """Send a message, and end the server in mid-sentence and start it again."""
    page.evaluate(WATCH)
    send(page, "Go on")
    wait_for_words(page, 12)
    server.stop(number)
    page.wait_for_selector("#status:has-text('again')")
    assert is_unfinished(page)
    server.start()


def is_unfinished(page):
    """Whether the page shows the beginning of an answer, and nothing else of it."""
    shown, whole = answers(page), ANSWER.format(text="Go on")
    return len(shown) == 1 and whole.startswith(shown[0]) and shown[0] != whole


def places_of(page):
    """A list that gets the `Last-Event-ID` of each request for events; None for none."""
    found = []
    page.on(
        "request",
        lambda one: (
            found.append(one.headers.get("last-event-id")) if one.url.endswith("/events") else None
        ),
    )
    return found


class TestLostConnections:
    def test_an_answer_goes_on_where_its_line_was_cut(self, chromium, tmp_path):
        """
        The page comes back in mid-sentence, several times, for what it hasn't seen alone.
        """
        with (
            chat_server(tmp_path, *SLOW) as server,
            line_to(server) as line,
            chat_page(chromium, line) as view,
        ):
            page, places = view.page, places_of(view.page)
            page.evaluate(WATCH)
            send(page, "Go on")
            for cut in range(1, 4):
                wait_for_words(page, 12 * cut)
                line.cut()
                assert is_unfinished(page)
                page.wait_for_selector("#status:has-text('again')", state="attached")
            wait_for_end(page)

            whole, seen = ANSWER.format(text="Go on"), page.evaluate("window.seen")
            assert answers(page) == [whole]
            assert [text for text in seen if not whole.startswith(text)] == []
            assert seen == sorted(seen, key=len)  # nothing was taken back
            assert places[0] is None
            assert 0 < int(places[1]) < int(places[2]) < int(places[3])


class TestRestarts:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "drained"])
    def test_the_answer_goes_on_in_the_open_page(self, chromium, tmp_path, number):
        """
        The page reconnects by itself, and its answer is whole, with nothing twice.
        """
        # A drain gives a node 8 of its 10 seconds: so many words take longer.
        pace = ("--word-s", "0.2") if number == signal.SIGTERM else SLOW
        with chat_server(tmp_path, *pace) as server, chat_page(chromium, server) as view:
            page, places = view.page, places_of(view.page)
            server.pace(0.03)
            interrupted_by(number, page, server)
            wait_for_end(page)

            whole = ANSWER.format(text="Go on")
            assert answers(page) == [whole]
            assert page.evaluate("window.most") == 1  # no half answer beside the whole one
            assert int(places[-1]) > 0
            seen = page.evaluate("window.seen")  # gone if the page was loaded again
            assert len(seen) > 20
            assert [text for text in seen if not whole.startswith(text)] == []

    def test_a_page_without_stored_events_has_the_whole_answer(self, chromium, tmp_path):
        """
        Where no event is stored, what was unfinished is dropped, and the answer comes anew.
        """
        options = (*SLOW, "--no-resumable")
        with chat_server(tmp_path, *options) as server, chat_page(chromium, server) as view:
            page = view.page
            interrupted_by(signal.SIGKILL, page, server)
            wait_for_end(page)

            assert answers(page) == [ANSWER.format(text="Go on")]
            assert page.locator("#messages .human").count() == 1

    def test_after_a_gap_unfinished_messages_are_dropped(self, view):
        """
        The values bring what is stored; a message whose beginning was missed is marked as cut.
        """
        events = [
            ["messages", [{"id": "1", "type": "AIMessageChunk", "content": "Half "}, {}]],
            ["messages", {"content": "of it"}],
            ["gap", {"from": 4, "to": 9}],
            ["values", {"messages": [{"id": "0", "type": "human", "content": "Hi"}]}],
            ["messages", [{"id": "1", "type": "AIMessageChunk", "content": " the end"}, {}]],
        ]
        shown = view.page.evaluate(TAKE, events)

        assert shown == [["0", "Hi", False], ["1", " the end", True]]

    def test_messages_that_are_written_anew_are_dropped(self, view):
        """
        The message that a later attempt replaces goes, and the new one takes its pieces.
        """
        events = [
            ["messages", [{"id": "1", "type": "AIMessageChunk", "content": "Half"}, {}]],
            ["messages/dropped", {"ids": ["1"]}],
            ["messages", [{"id": "2", "type": "AIMessageChunk", "content": "All "}, {}]],
            ["messages", {"content": "of it"}],
        ]

        assert view.page.evaluate(TAKE, events) == [["2", "All of it", False]]


class TestLooks:
    def test_dark_mode_is_the_system_s_until_it_is_chosen(self, chromium, server):
        """
        The system's dark mode is taken; the switch changes it, and a reload keeps that.
        """
        paper = "getComputedStyle(document.body).backgroundColor"
        with chat_page(chromium, server, color_scheme="dark") as view:
            page = view.page
            dark = page.evaluate(paper)
            page.click("#theme")
            light = page.evaluate(paper)
            page.reload()
            page.wait_for_selector("#text")

            assert (dark, light) == ("rgb(22, 25, 28)", "rgb(255, 255, 255)")
            assert page.evaluate(paper) == light

    @pytest.mark.parametrize("width", [390, 1280])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_the_page_is_accessible(self, chromium, server, scheme, width):
        """
        Axe finds nothing to mend in the login, an answer, a question and the list; nothing is cut.
        """
        axe = pytest.importorskip(AXE, reason="axe is not installed").Axe()
        options = {"color_scheme": scheme, "viewport": {"width": width, "height": 844}}
        found = []

        def check(page, name):
            found.extend(
                (name, one["id"], one["nodes"][0]["html"][:100])
                for one in axe.run(page)["violations"]
            )
            if page.evaluate(TOO_LARGE):
                found.append((name, "larger than the window"))

        with chat_page(chromium, server, user=None, **options) as view:
            page = view.page
            page.wait_for_selector("#users button")
            check(page, "login")
            page.click("#users >> text=grace")
            page.wait_for_selector("#text")
            check(page, "empty")
            send(page, "Tell me")
            wait_for_words(page, 20)
            check(page, "writing")
            wait_for_end(page)
            send(page, "book a room")
            page.wait_for_selector("#question:visible")
            check(page, "question")
            if width < 700:
                page.click("#menu")
            check(page, "list")
            assert page.locator("#chats a").first.is_visible()
            assert found == []
            view.finish()

    def test_screen_readers_get_sentences(self, view):
        """
        The live region has the answer in parts that end where sentences do, and all of it once.
        """
        page = view.page
        send(page, "Speak")
        page.wait_for_selector("#messages .ai")
        wait_for_end(page)
        said = page.locator("#said p").evaluate_all("all => all.map(one => one.textContent)")

        assert "".join(said) == ANSWER.format(text="Speak")
        assert len(said) < ANSWER.count(" ") / 3

    def test_users_have_their_own_lists(self, chromium, view, server):
        """
        What one user writes isn't in the list of another one, whose name is asked for first.
        """
        send(view.page, "Only mine")
        view.page.wait_for_selector("#chats >> text=Only mine")
        with chat_page(chromium, server, user="grace") as other:
            other.page.wait_for_selector("#user:has-text('grace')")
            assert other.page.locator("#chats >> text=Only mine").count() == 0

"""The documentation site: it builds, its links lead somewhere, nothing is garbled, search works."""

import json
import re
import threading
from contextlib import suppress
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Error as PlaywrightError

from actorgraph.values.thread_phase import PHASE_TEXT
from tests.support.site import pictures, reference, screenshots
from tests.support.site.build import build
from tests.support.site.docstring_markdown import markdown
from tests.support.site.llms import indexes
from tests.support.site.navigation import flat, heading, navigation
from tests.support.site.pages import all_pages, moved, source_pages
from tests.support.source_files import ROOT

TERMS = (
    *("durability", "interrupt", "Send", "thread_id", "Command", "kill -9", "lease", "fork"),
    *("PostgresSaver", "ActorSystem", "map", "trio", "studio", "webhook", "cron", "retention"),
    *("encryption", "astream", "create_react_agent", "checkpoint", "superstep", "time travel"),
    *("StateGraph", "backpressure", "codemod", "JsonlSaver", "recursion_limit", "get_state"),
    "doctor",
)
"""Terms that the search must find."""

WAIT_MS = 20_000
TRIES_MAX = 20


class Page(HTMLParser):
    """One built page: its links, its anchors, what it loads, and its prose without code."""

    SILENT = ("script", "style", "code", "pre", "svg")

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors, self.words = [], [], set(), []
        self.silent = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.silent += tag in self.SILENT
        self.anchors.update(filter(None, (given.get("id"), given.get("name"))))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given["href"])

    def handle_endtag(self, tag):
        self.silent -= tag in self.SILENT

    def handle_data(self, data):
        if not self.silent:
            self.words.append(data)


@cache
def read(path):
    return Page(path.read_text("utf-8"))


def html_of(site):
    return [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]


def broken(page, site):
    """The links and loads of a page that lead to no file or to no anchor."""
    for address in (*read(page).links, *read(page).loads):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        target = target / "index.html" if target.is_dir() else target
        known = target.is_file() and (
            not parts.fragment
            or target.suffix != ".html"
            or unquote(parts.fragment) in read(target).anchors
        )
        if not known:
            yield f"{page.relative_to(site)}: {address}"


class TestBuild:
    def test_every_page_is_there(self, site):
        """
        Strict mode warns of nothing, and each page in the navigation has been written.
        """
        pages = flat(navigation(all_pages()))

        missing = [p for p in pages if not (site / p).with_suffix(".html").is_file()]
        assert missing == []

    @pytest.mark.parametrize("target", ["missing.md", "#missing"])
    def test_a_broken_link_fails_the_build(self, tmp_path, target):
        """
        A link to a page or a heading that is not there is an error, and nothing is written.
        """
        pytest.importorskip("zensical", reason="zensical is not installed")

        with pytest.raises(SystemExit, match="does not exist"):
            build(tmp_path / "site", {"index.md": f"# A\n\n[there]({target})\n"})

        assert not (tmp_path / "site").exists()

    def test_no_link_is_broken(self, site):
        """
        Links and pictures of every page lead to a file, and to an anchor that it has.
        """
        assert [link for page in html_of(site) for link in broken(page, site)] == []

    def test_nothing_is_loaded_from_elsewhere(self, site):
        """
        Scripts, styles, pictures and fonts of all pages are files of the site.
        """
        loads = {address for page in html_of(site) for address in read(page).loads}
        styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))

        assert {a for a in loads if urlsplit(a).netloc} == set()
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]+", styles) == []

    def test_nothing_is_garbled(self, site):
        """
        No mark of Markdown, and no section of a docstring, is left in the prose of a page.
        """
        marks = re.compile(
            r"\]\(|```|\{ *#[\w-]+|^\s*\|.*\|\s*$|^#{1,6} |\*\*"
            r"|^(?:Args|Raises|Returns|Attributes):\s",
            re.MULTILINE,
        )

        found = [
            f"{page.relative_to(site)}: {words.strip()[:80]}"
            for page in html_of(site)
            for words in read(page).words
            if marks.search(words)
        ]
        assert found == []
        assert [page.name for page in html_of(site) if read(page).silent] == []


class TestNavigation:
    def test_every_page_is_in_it_once(self):
        """
        Each page of docs/, beside it and made of code is reached by the navigation, once.
        """
        pages = all_pages()
        found = flat(navigation(pages))

        assert sorted(found) == sorted(pages)
        assert set(source_pages()) <= set(found)

    def test_a_new_page_is_put_at_the_end(self):
        """
        A page that the table does not know is shown under "More".
        """
        made = navigation({"index.md": "# Home", "state.md": "# State", "new.md": "# New"})

        assert made[-1] == {
            "Explanation": [{"Graphs": [{"State": "state.md"}]}, {"More": [{"New": "new.md"}]}]
        }

    def test_titles_are_without_marks(self):
        """
        The title of a page is its heading without code marks and anchors.
        """
        assert heading("text\n# `actorgraph.graph` { #x }\n") == "actorgraph.graph"


class TestPages:
    HOMES = {"docs/state.md": "state.md", "CHANGELOG.md": "changelog.md"}  # noqa: RUF012

    def test_links_lead_through_the_site(self):
        """
        A link to a page moves with it; a link to a file without a page becomes its text.
        """
        text = "[a](../state.md#x) [b](../../CHANGELOG.md) [c](../../tests/conftest.py)"
        text += " [d](https://e.org)"

        made = moved(text, "docs/how-to/one.md", "how-to/one.md", self.HOMES)

        assert made == "[a](../state.md#x) [b](../changelog.md) c [d](https://e.org)\n"

    def test_code_stays_as_it_is(self):
        """
        A link in code, in a line or a block, is not changed.
        """
        text = "`[a](b.md)`\n\n```python no-run\n[a](b.md)\n```\n"

        made = moved(text, "docs/one.md", "one.md", {})

        assert made == "`[a](b.md)`\n\n```python\n[a](b.md)\n```\n\n"

    def test_headings_have_the_anchors_of_the_forge(self):
        """
        A heading's anchor is that of the forge, so that one link works in both places.
        """
        made = moved("## `if_busy`, and more\n\n## A\n\n## A\n", "docs/o.md", "o.md", {})

        assert re.findall(r"\{ #(.*?) \}", made) == ["if_busy-and-more", "a", "a-1"]


class TestReference:
    def test_every_public_name_has_its_place(self, site):
        """
        Each name of each `__all__` leads to an anchor in the reference.
        """
        for (module, name), place in reference.places().items():
            page = site / reference.page_of(place.module)
            assert place.anchor in read(page.with_suffix(".html")).anchors, f"{module}.{name}"

    def test_sections_may_follow_each_other_closely(self):
        """
        Sections without an empty line between them are lists, with the types of the arguments.
        """
        text = "Do it.\n\nArgs:\n    a: the first,\n        of many.\nReturns: the *result*.\n"
        text += "Raises:\n    KeyError: it is missing."

        made = markdown(text, {"a": "int | None"})

        assert [line for line in made.splitlines() if line] == [
            "Do it.",
            "**Arguments**",
            "- `a` <span class=ag-type><code>int &#124; None</code></span>: the first, of many.",
            r"**Returns**: the \*result\*.",
            "**Raises**",
            "- `KeyError`: it is missing.",
        ]


class TestPictures:
    def test_files_are_what_the_library_draws(self):
        """
        Each picture of docs/pictures is drawn by the library; `make picture` renews them.
        """
        for name, draw in pictures.PICTURES.items():
            assert (pictures.FOLDER / f"{name}.svg").read_text("utf-8") == draw(), name

    def test_each_is_shown_by_a_page(self):
        """
        At least five drawings, each shown by at least one page.
        """
        texts = "".join(text for _, text in source_pages().values())

        assert len(pictures.PICTURES) >= 5
        assert [n for n in pictures.PICTURES if f"pictures/{n}.svg)" not in texts] == []

    def test_they_are_small(self):
        """
        Drawings have at most 20 kB each, screenshots at most 150 kB.
        """
        limits = {".svg": 20_000, ".png": 150_000}
        files = [p for p in (ROOT / "docs" / "pictures").iterdir() if p.suffix in limits]

        assert [p.name for p in files if p.stat().st_size > limits[p.suffix]] == []

    @pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.png")), ids=lambda p: p.stem)
    def test_screenshots_show_the_words_of_now(self, path):
        """
        The statuses in a screenshot are phases as the studio calls them; `make screenshots` renews
        them.
        """
        image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
        with image.open(path) as opened:
            shown = json.loads(opened.info[screenshots.STATUS_KEY])

        assert set(shown) <= set(PHASE_TEXT.values())


class TestLanguageModels:
    def test_the_index_lists_every_page(self, site):
        """
        llms.txt names each page as Markdown, and each of these files is there.
        """
        listed = re.findall(
            r"^- \[.*?\]\(([^)]+)\)", (site / "llms.txt").read_text("utf-8"), re.MULTILINE
        )

        assert sorted(listed) == sorted(all_pages())
        assert [path for path in listed if not (site / path).is_file()] == []

    def test_the_long_text_has_the_guides(self):
        """
        llms-full.txt has the text of the guides, and nothing that only the generator reads.
        """
        text = indexes(all_pages())["llms-full.txt"]

        assert "# State and channels" in text
        assert "{ #" not in text


class TestSearchIndex:
    @pytest.mark.parametrize("term", TERMS)
    def test_the_index_has_a_term(self, site, term):
        """
        The search's index has each word of the term in one section.
        """
        assert len(TERMS) >= 20
        assert any(all(w in text for w in term.lower().split()) for text in indexed(site))


@cache
def indexed(site):
    items = json.loads((site / "search.json").read_text("utf-8"))["items"]
    return [f"{item['title']} {item['text']}".lower() for item in items]


@pytest.fixture(params=["file", "http"])
def address(request, site):
    """
    Where the site is: in the file system, or behind a static server.
    """
    if request.param == "file":
        yield site.as_uri() + "/"
        return
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class TestInABrowser:
    def test_search_finds_every_term_without_a_foreign_request(self, chromium, address):
        """
        Each term has a result, and the pages load nothing but files of the site.
        """
        page, foreign, complaints = watched(chromium, address)
        page.goto(address + "index.html")

        terms = TERMS if address.startswith("file:") else TERMS[:5]
        missing = [term for term in terms if not results(page, term)]

        page.close()
        assert missing == []
        assert foreign == []
        assert complaints == []

    @pytest.mark.parametrize("width", [400, 1280])
    def test_pages_fit_their_window(self, chromium, site, width):
        """
        On a telephone and on a desk, one page of each kind needs no scrolling sideways.
        """
        page, foreign, complaints = watched(chromium, site.as_uri(), width=width)
        wide = []
        for name in (
            "index",
            "state",
            "ARCHITECTURE",
            "reference/api/graph",
            "reference/langgraph",
        ):
            page.goto(f"{site.as_uri()}/{name}.html")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(name)

        page.close()
        assert wide == []
        assert (foreign, complaints) == ([], [])

    def test_colours_follow_the_choice(self, chromium, site):
        """
        The dark scheme changes the page and the drawings in it.
        """
        page, _, _ = watched(chromium, site.as_uri(), dark=True)
        page.goto(f"{site.as_uri()}/ARCHITECTURE.html")

        page.wait_for_selector("[data-md-color-scheme=slate]")
        fill = page.eval_on_selector(".ag-node > rect", "e => getComputedStyle(e).fill")

        page.close()
        assert fill == "rgb(27, 26, 32)"


def watched(chromium, address, width=1280, *, dark=False):
    """A page that collects its foreign requests and the console's complaints."""
    page = chromium.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    page.set_default_timeout(WAIT_MS)
    foreign, complaints = [], []
    page.on(
        "request",
        lambda r: None if r.url.startswith((address, "data:", "blob:")) else foreign.append(r.url),
    )
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page, foreign, complaints


def results(page, term):
    """The titles that the search finds for a term, all of whose words a result has."""
    box = page.get_by_role("combobox")
    tries = 0
    while not box.is_visible() and tries < TRIES_MAX:
        tries += 1
        page.keyboard.press("Control+k")  # without effect until the page has read its index
        with suppress(PlaywrightError):
            box.wait_for(timeout=WAIT_MS / TRIES_MAX)
    options = page.get_by_role("option")
    box.fill("")
    options.first.wait_for(state="detached")
    box.fill(term)
    words = re.compile(re.escape(term.split()[0]), re.IGNORECASE)
    found = options.filter(has_text=words)
    found.first.wait_for()
    return found.all_inner_texts()

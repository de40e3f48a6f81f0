"""Screenshots of the studio for the documentation: `make screenshots`.

They show the application of the studio's browser tests, and an essay's question, in the machine's
Chromium. Each has the words of status that it shows in its metadata, under `STATUS_KEY`:
`tests/docs` compares them with those of the studio. To see all pages in the system's dark colours:

    python -m tests.support.site.screenshots FOLDER
"""

import json
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright

from tests.studio.browser.app import TOKEN
from tests.studio.browser.conftest import FLAGS, StudioServer, browser_path, serving
from tests.support.site.essay import essay_app
from tests.support.site.pictures import FOLDER
from tests.web.server import running

COLOURS = 256
WAIT_MS = 20_000
THREADS = (("steps", "order-17"), ("nested", "report-4"), ("ask", "refund-9"), ("fail", "import-2"))
STATUS_KEY = "status"
SCREENSHOTS = {
    "studio-threads": "/threads",
    "studio-graph": "/graphs/nested",
    "studio-waterfall": "/threads/report-4",
}
"""Name of the file -> the page that it shows."""
HEIGHTS = {"studio-threads": 640, "studio-graph": 760, "studio-waterfall": 820}
ESSAY = FOLDER.parent / "studio.png"
DARK = FOLDER / "studio-dark.png"


def start(page: Page, url: str, graph: str, thread_id: str, given: str = "{}") -> None:
    """Start a thread by the form of the list, and wait until its run has ended."""
    page.goto(f"{url}/threads")
    page.locator("form[action$='/threads'][method=post] select").select_option(graph)
    page.fill("input[name=thread_id]", thread_id)
    page.fill("textarea[name=input]", given)
    page.click("text=Start >> nth=-1")
    page.wait_for_selector("h1")
    page.wait_for_timeout(2500)  # a picture of the end of a run, not of its middle


def shot(page: Page, path: Path, *, width: int = 1100, height: int) -> None:
    """Save the top of the page, with few colours, and the words of status that it shows."""
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": width, "height": height})
    words = sorted(set(page.locator(".status:visible").all_inner_texts()))
    info = PngInfo()
    info.add_text(STATUS_KEY, json.dumps(words))
    image = Image.open(path).convert("RGB").quantize(COLOURS)
    image.save(path, optimize=True, pnginfo=info)
    print(f"wrote {path} ({path.stat().st_size // 1000} kB), {words}")


@contextmanager
def page_of(browser: Browser, url: str, scheme: str, width: int = 1100) -> Generator[Page]:
    """A page that is signed in, in the system's light or dark colours."""
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{url}/threads?token={TOKEN}")
    yield page
    page.close()


def of_the_tests(browser: Browser, server: StudioServer, dark: Path | None) -> None:
    """Start threads of several kinds, and save three pages."""
    with page_of(browser, server.url, "light") as page:
        for graph, thread_id in THREADS:
            start(page, server.url, graph, thread_id)
    for scheme, folder in (("light", FOLDER), ("dark", dark)):
        if folder is not None:
            with page_of(browser, server.url, scheme) as page:
                for name, path in SCREENSHOTS.items():
                    page.goto(server.url + path)
                    shot(page, folder / f"{name}.png", height=HEIGHTS[name])


def of_the_essay(browser: Browser, url: str) -> None:
    """Start an essay, and save its question in light and in dark colours."""
    with page_of(browser, url, "light") as page:
        start(page, url, "essay", "essay-17", '{"topic": "actors"}')
    for scheme, path in (("light", ESSAY), ("dark", DARK)):
        with page_of(browser, url, scheme, width=1240) as page:
            page.goto(f"{url}/threads/essay-17")
            shot(page, path, width=1240, height=900)


def main(dark: Path | None = None) -> None:
    """Save all of them.

    Args:
        dark: a folder for the pages in dark colours that the documentation does not show.
    """
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
        with serving(Path(folder) / "runs.db") as server:
            of_the_tests(browser, server, dark)
        with running(essay_app(Path(folder) / "essays.db", TOKEN)) as address:
            of_the_essay(browser, f"{address}/studio")
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

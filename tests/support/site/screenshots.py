"""Screenshots of the studio for docs/studio.md: `python -m tests.support.site.screenshots`.

They show the application of the studio's browser tests, in the machine's Chromium.
"""

import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.studio.browser.app import TOKEN
from tests.studio.browser.conftest import FLAGS, StudioServer, browser_path, serving
from tests.support.site.pictures import FOLDER

COLOURS = 64
WAIT_MS = 20_000
THREADS = (("steps", "order-17"), ("nested", "report-4"), ("ask", "refund-9"), ("fail", "import-2"))


def start(page: Page, server: StudioServer, graph: str, thread_id: str) -> None:
    """Start a thread by the form of the list, and wait until its run has ended."""
    page.goto(f"{server.url}/threads")
    page.locator("form[action$='/threads'][method=post] select").select_option(graph)
    page.fill("input[name=thread_id]", thread_id)
    page.fill("textarea[name=input]", "{}")
    page.click("text=Start >> nth=-1")
    page.wait_for_selector("h1")
    page.wait_for_timeout(2500)  # a picture of the end of a run, not of its middle


def shot(page: Page, name: str, *, height: int) -> None:
    """Save the top of the page, with few colours."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": 1100, "height": height})
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"wrote {path} ({path.stat().st_size // 1000} kB)")


def main() -> None:
    """Start threads of several kinds, and save three pages."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "runs.db") as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{server.url}/threads?token={TOKEN}")
        for graph, thread_id in THREADS:
            start(page, server, graph, thread_id)
        page.goto(f"{server.url}/threads")
        shot(page, "studio-threads", height=640)
        page.goto(f"{server.url}/graphs/nested")
        shot(page, "studio-graph", height=760)
        page.goto(f"{server.url}/threads/report-4")
        shot(page, "studio-waterfall", height=820)
        browser.close()


if __name__ == "__main__":
    main()

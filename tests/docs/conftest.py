"""The site, built once for all processes of a test run; and a browser, if there is one."""

import fcntl
import os

import pytest

from tests.studio.browser.conftest import FLAGS, browser_path


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """
    The folder of the built site. The first process that needs it builds it, the others wait.
    """
    pytest.importorskip("zensical", reason="zensical is not installed: pip install '.[docs]'")
    from tests.support.site.build import build

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build(folder)
    return folder


@pytest.fixture(scope="session")
def chromium():
    """
    The browser, or a skip with the reason.
    """
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()

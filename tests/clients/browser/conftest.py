"""A real Chromium; the tests are skipped without one."""

from tests.studio.browser.conftest import chromium

__all__ = ["chromium"]

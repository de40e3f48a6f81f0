"""Build the site: `python -m tests.support.site.build [FOLDER]`, by default `site/`.

The pages are prepared in a folder of their own, then zensical makes HTML of them in strict mode. An
index for language models (`llms.txt`, `llms-full.txt`, each page as Markdown) is beside it.
Nothing in the result asks another server for anything.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support.site.llms import indexes, write_pages
from tests.support.site.navigation import navigation
from tests.support.site.pages import all_pages, assets
from tests.support.site.pictures import shown_inline
from tests.support.source_files import ROOT

THEME = Path(__file__).parent / "theme"
OUT = ROOT / "site"
FEATURES = (
    *("navigation.tabs", "navigation.top", "navigation.prune", "navigation.footer"),
    *("navigation.path", "search.highlight", "content.code.copy", "toc.follow"),
)
SECONDS_MAX = 300
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def configuration(pages: dict[str, str]) -> str:
    """The configuration of zensical, as YAML: JSON is a part of it."""
    palettes = [
        _palette("(prefers-color-scheme)", None, "auto", "light mode"),
        _palette("(prefers-color-scheme: light)", "default", "sun", "dark mode"),
        _palette("(prefers-color-scheme: dark)", "slate", "moon", "the system's mode"),
    ]
    made = {
        "site_name": "actorgraph",
        "site_description": "Durable graphs over shared state, on asyncio and trio",
        "site_dir": "made",
        "docs_dir": "pages",
        "use_directory_urls": False,
        "copyright": f"actorgraph {version('actorgraph')}, MIT licence",
        "theme": {
            "name": "material",
            "custom_dir": "theme",
            "font": False,
            "language": "en",
            "features": list(FEATURES),
            "palette": palettes,
            "icon": {"logo": "lucide/waypoints"},
            "favicon": "assets/favicon.svg",
        },
        "extra": {"generator": False},
        "extra_css": ["assets/site.css"],
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "attr_list",
            "tables",
            "def_list",
            "md_in_html",
            "admonition",
            {"toc": {"permalink": True, "toc_depth": "2-3"}},
            {"pymdownx.highlight": {"pygments_lang_class": True}},
            "pymdownx.superfences",
            "pymdownx.details",
            {"pymdownx.tabbed": {"alternate_style": True}},
        ],
        "nav": navigation(pages),
    }
    return json.dumps(made, indent=1)


def _palette(media: str, scheme: str | None, icon: str, other: str) -> dict[str, Any]:
    shown = {"auto": "lucide/sun-moon", "sun": "lucide/sun", "moon": "lucide/moon"}[icon]
    made: dict[str, Any] = {"media": media, "toggle": {"icon": shown, "name": f"Use {other}"}}
    return made | ({"scheme": scheme} if scheme else {})


def stage(folder: Path, pages: dict[str, str]) -> None:
    """Write the pages and pictures that zensical reads."""
    for path, text in pages.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(shown_inline(text, path), "utf-8")
    for picture in assets():
        target = folder / picture.relative_to(ROOT / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    shutil.copytree(THEME / "assets", folder / "assets")
    for name, text in indexes(pages).items():
        (folder / name).write_text(text, "utf-8")


def build(out: Path = OUT, pages: dict[str, str] | None = None) -> str:
    """Build the site into a folder, which is replaced.

    Args:
        pages: Markdown by path from the site's root; default every page of the repository.

    Returns: what zensical printed.
    Raises:
        SystemExit: it warned of something; its text is the message. The folder is unchanged.
    """
    pages = all_pages() if pages is None else pages
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        stage(work / "pages", pages)
        shutil.copytree(THEME, work / "theme")
        (work / "mkdocs.yml").write_text(configuration(pages), "utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
        done = subprocess.run(
            [*command, "--config-file", "mkdocs.yml"],
            cwd=work,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS_MAX,
            check=False,
        )
        printed = COLOUR.sub("", done.stdout + done.stderr)
        if done.returncode != 0 or "warning" in printed.lower():
            raise SystemExit(printed)
        write_pages(work / "made", pages)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(work / "made", out)
    return printed


def main() -> None:
    """Build, and print where."""
    parser = argparse.ArgumentParser(description="Build the documentation as a folder of files.")
    parser.add_argument("folder", nargs="?", type=Path, default=OUT)
    given = parser.parse_args()
    build(given.folder)
    count = len(list(given.folder.rglob("*.html")))
    print(f"wrote {count} pages to {given.folder}; open {given.folder / 'index.html'}")


if __name__ == "__main__":
    main()

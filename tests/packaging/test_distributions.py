"""The wheel and the sdist: their files, their metadata, and that one makes the other."""

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes

import pytest

import actorgraph
from tests.packaging.extras import DEVELOPMENT, EXTRAS, PROJECT
from tests.support.source_files import ROOT

WHEEL_MAX = 2_000_000
"""Bytes."""


def build(source, folder, *kinds):
    """Build distributions of a source tree; returns their paths by suffix."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *kinds]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=100)
    return {path.suffix: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist of this tree."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def files_of_wheel(path):
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("RECORD")}


def package_files():
    """The files of the package in the tree, without what Python leaves."""
    found = (p for p in (ROOT / "actorgraph").rglob("*") if p.is_file())
    return {p.relative_to(ROOT).as_posix() for p in found if "__pycache__" not in p.parts}


# One test, because each process of pytest-xdist would build anew.
def test_the_distributions_are_complete(built, tmp_path):
    """
    The wheel has the package and nothing else, with the version, extras and Pythons of the project;
    the sdist has what builds the same wheel.
    """
    files = files_of_wheel(built[".whl"])
    ours = {name for name in files if ".dist-info/" not in name}
    (metadata,) = (text for name, text in files.items() if name.endswith("/METADATA"))
    told = message_from_bytes(metadata)
    with tarfile.open(built[".gz"]) as sdist:
        sdist.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    again = build(source, tmp_path / "again", "-t", "wheel")

    assert ours == package_files()
    assert {"actorgraph/py.typed", "actorgraph/studio/templates/base.html"} <= ours
    assert "actorgraph/studio/static/studio.css" in ours
    assert built[".whl"].stat().st_size < WHEEL_MAX
    assert told["Version"] == actorgraph.__version__ == source.name.split("-")[-1]
    assert told["Requires-Python"] == ">=3.11"
    assert set(told.get_all("Provides-Extra")) == EXTRAS.keys() | DEVELOPMENT
    assert re.findall(r":: (3\.\d+)", "\n".join(told.get_all("Classifier"))) == [
        *("3.11", "3.12", "3.13", "3.14")
    ]
    assert files_of_wheel(again[".whl"]) == files
    folders = {path.name for path in source.iterdir() if path.is_dir()}
    assert folders - {"site"} == {"actorgraph", "docs", "examples", "tests"}
    strays = [p for p in source.rglob("*") if p.suffix in {".pyc", ".db"} or p.name[:5] == ".venv"]
    assert strays == []


class TestMetadata:
    def test_every_extra_is_in_all(self):
        """
        `all` has each extra that programs use, and the page of installation its row.
        """
        lists = PROJECT["optional-dependencies"]
        (whole,) = lists["all"]
        page = (ROOT / "docs" / "installation.md").read_text("utf-8")

        assert set(re.findall(r"[\w-]+", whole)) == {"actorgraph", *EXTRAS}
        assert lists.keys() == EXTRAS.keys() | DEVELOPMENT
        assert [extra for extra in EXTRAS if f"| `{extra}` |" not in page] == []

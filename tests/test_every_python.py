"""Which interpreters `make test-all` and `make test-newest` find, and what the second runs."""

import sys
from pathlib import Path

from tests.support.every_python import INTERPRETER, ROOT, VERSIONS, found, newest

OWN = "{}.{}".format(*sys.version_info)


def interpreter(folder: Path, name: str, version: str, *, starts: bool = True) -> None:
    """Write a program that answers as Python of a version, or as pyenv's shim that refuses."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{f'echo {version}' if starts else 'exit 127'}\n")
    path.chmod(0o755)


class TestFound:
    def test_one_that_refuses_to_start_hides_none(self, tmp_path, monkeypatch):
        """
        The first on PATH that starts is found, or the newest of pyenv or uv.
        """
        interpreter(tmp_path / "shims", "python3.12", "3.12", starts=False)
        interpreter(tmp_path / "bin", "python3.12", "3.12")
        interpreter(tmp_path / "pyenv/versions/3.13.9/bin", "python", "3.13")
        interpreter(tmp_path / "pyenv/versions/3.13.10/bin", "python", "3.13")
        interpreter(tmp_path / "uv/cpython-3.14.1-linux/bin", "python", "3.14")
        monkeypatch.setenv("PATH", f"{tmp_path}/shims:{tmp_path}/bin")
        monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
        monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))

        assert found() == {
            "3.12": tmp_path / "bin/python3.12",
            "3.13": tmp_path / "pyenv/versions/3.13.10/bin/python",
            "3.14": tmp_path / "uv/cpython-3.14.1-linux/bin/python",
        }

    def test_the_newest_other(self):
        """
        The newest is one of another version than one's own, if there is one.
        """
        here = {version: Path(version) for version in ("3.11", "3.12", "3.13")}

        assert newest(here, "3.11") == ["3.13"]
        assert newest(here, "3.13") == ["3.12"]
        assert newest({"3.11": Path()}, "3.11") == []


def test_each_part_that_depends_on_the_interpreter_is_there():
    """
    The files and folders that `make test-newest` runs exist, and each says why.
    """
    assert all((ROOT / path).exists() and why for path, why in INTERPRETER.items())


def test_this_python_is_supported():
    """
    The tests run on a version that is tested.
    """
    assert OWN in VERSIONS

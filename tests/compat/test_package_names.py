"""Names that published packages import: each is here, or its absence is decided."""

import zipfile

import pytest

from tests.ecosystem.names import PACKAGES, collected, decision, missing, names_in, stored


class TestPublishedPackages:
    def test_each_name_is_here_or_decided(self):
        """
        No name of `names.json` is absent without a reason and a way out.
        """
        found = stored()

        left = [place for place in missing(found) if decision(*place) is None]

        assert len(found) >= 40
        assert left == []

    def test_only_langgraphs_server_and_its_copies_lack_names(self):
        """
        Every other package's names are all here.
        """
        packages = {package for names in missing(stored()).values() for package in names}

        assert packages <= {"langgraph-api", "langgraph-runtime-inmem"}

    def test_the_packages_are_those_of_the_list(self):
        """
        Each package that was read is on the list that is downloaded.
        """
        listed = {name.replace("_", "-").lower() for name in PACKAGES}

        assert stored().keys() <= listed


class TestReading:
    @pytest.mark.parametrize(
        ("source", "names"),
        [
            ("from langgraph.types import Send, Command as C", ["types.Send", "types.Command"]),
            ("from langgraph.types import *", ["types."]),
            ("import langgraph.graph.state", ["graph.state."]),
            ("import langgraph.types as t\nx = t.Send", ["types.", "types.Send"]),
            ("import langgraph.types\nx = langgraph.types.Send(1)", ["types.", "types.Send"]),
            ("from langgraph import types\nx: types.Send", [".types", "types.Send"]),
            ("from .langgraph import Send\nfrom langgraphs import x\nimport langchain", []),
            ("def f(:", []),
        ],
    )
    def test_each_form_of_import_is_found(self, source, names):
        """
        Names of `from` imports, and attributes of imported modules, with their modules.
        """
        wanted = [f"langgraph.{one}" if one[0] != "." else f"langgraph{one}" for one in names]

        assert [f"{module}.{name}" for module, name in names_in(source)] == wanted

    def test_an_archive_is_read_without_its_tests_and_own_modules(self, tmp_path):
        """
        Of a wheel the package's files count, and not what it puts into the namespace itself.
        """
        with zipfile.ZipFile(tmp_path / "my_saver-1.0-py3-none-any.whl", "w") as written:
            own = "from langgraph.checkpoint.mine import A\nfrom langgraph.types import Send\n"
            written.writestr("langgraph/checkpoint/mine/__init__.py", own)
            written.writestr("tests/test_it.py", "from langgraph.types import Other\n")

        assert collected(tmp_path) == {"my-saver": {"langgraph.types": ["Send"]}}

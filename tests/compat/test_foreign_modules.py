"""Modules of other distributions inside LangGraph's namespaces: found, with our base classes."""

from importlib.metadata import files
from pathlib import PurePosixPath

import pytest

from actorgraph.compat.portions import OWN, is_foreign
from tests.support.layer import over_layer

DISTRIBUTIONS = (
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "langgraph-prebuilt",
)

PLACES = '''
import sys, tempfile, zipfile
from pathlib import Path

SAVER = """
import langgraph.store.base
from langgraph.checkpoint.base import BaseCheckpointSaver
from .rows import ROWS
class MySaver(BaseCheckpointSaver): pass
"""

def portion(module="langgraph.checkpoint.mydb", text=SAVER):
    root = Path(tempfile.mkdtemp())
    folder = root.joinpath(*module.split("."))
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(text)
    (folder / "rows.py").write_text("ROWS = 'rows'")
    (folder / "notes.txt").write_text("notes")
    return root

def bases(kind):
    return [base.__module__ for base in kind.__mro__[1:2]]
'''


def modules_of(distribution: str) -> list[str]:
    """The modules that a distribution puts below `langgraph`."""
    found = []
    for path in files(distribution) or ():
        parts = PurePosixPath(path).with_suffix("").parts
        if parts[0] == "langgraph" and path.suffix == ".py":
            found.append(".".join(parts).removesuffix(".__init__"))
    return found


class TestWhoseTheyAre:
    @pytest.mark.parametrize("distribution", DISTRIBUTIONS)
    def test_no_module_of_langgraph_is_taken_for_another_ones(self, distribution):
        """
        Each module of LangGraph's own distributions is answered or refused, and never loaded.
        """
        own = modules_of(distribution)

        assert own
        assert [module for module in own if is_foreign(module)] == []

    @pytest.mark.parametrize(
        ("module", "foreign"),
        [
            ("langgraph.checkpoint.redis", True),
            ("langgraph.checkpoint.redis.aio", True),
            ("langgraph.store.mongodb", True),
            ("langgraph.cache.other", True),
            ("langgraph.middleware", True),
            ("langgraph.middleware.redis", True),
            ("langgraph.checkpoint.sqlite.other", False),
            ("langgraph.pregel._algo", False),
            ("langgraph.cache.redis", False),
            *((package, False) for package in OWN),
        ],
    )
    def test_modules_beside_langgraphs_own_are_foreign(self, module, foreign):
        """
        Names in the four namespaces are foreign if LangGraph has none such; others are its own.
        """
        assert is_foreign(module) is foreign


class TestPlaces:
    def test_a_folder_of_the_path(self):
        """
        A saver, a store and a package of a namespace of their own import our base classes.
        """
        lines = over_layer(
            PLACES
            + """
sys.path.append(str(portion()))
sys.path.append(str(portion("langgraph.store.mydb", SAVER.replace("Saver", "Store")
    .replace("checkpoint", "store").replace("BaseCheckpointStore", "BaseStore"))))
sys.path.append(str(portion("langgraph.extra.mydb")))
from langgraph.checkpoint.mydb import MySaver, ROWS
from langgraph.store.mydb import MyStore
from langgraph.extra.mydb import MySaver as Other
import langgraph.checkpoint.mydb.rows as rows
print(bases(MySaver), bases(MyStore), bases(Other), rows.ROWS)
from langgraph.checkpoint.base import BaseCheckpointSaver
print(isinstance(MySaver(), BaseCheckpointSaver), MySaver.__module__)
"""
        )

        base, store = "actorgraph.api.savers.base_saver", "actorgraph.stores.base"
        assert lines == [
            f"['{base}'] ['{store}'] ['{base}'] rows",
            "True langgraph.checkpoint.mydb",
        ]

    def test_every_entry_of_the_path_has_its_part(self):
        """
        Two distributions in two folders are found, also one that is added after the first import.
        """
        lines = over_layer(
            PLACES
            + """
sys.path.insert(0, str(portion("langgraph.checkpoint.one")))
from langgraph.checkpoint.one import MySaver
sys.path.append(str(portion("langgraph.checkpoint.two")))
from langgraph.checkpoint import two
from langgraph.checkpoint import memory
print(MySaver.__module__, two.__name__, memory.InMemorySaver.__module__)
"""
        )

        assert lines == [
            "langgraph.checkpoint.one langgraph.checkpoint.two actorgraph.api.savers.hosted"
        ]

    def test_a_zip_archive(self):
        """
        Modules of an archive are found, with their resources.
        """
        lines = over_layer(
            PLACES
            + """
root = portion()
archive = Path(tempfile.mkdtemp()) / "saver.zip"
with zipfile.ZipFile(archive, "w") as written:
    for file in root.rglob("*"):
        written.write(file, file.relative_to(root))
sys.path.append(str(archive))
from langgraph.checkpoint.mydb import MySaver
from importlib.resources import files
print(bases(MySaver), files("langgraph.checkpoint.mydb").joinpath("notes.txt").read_text())
"""
        )

        assert lines == ["['actorgraph.api.savers.base_saver'] notes"]

    def test_an_editable_install(self):
        """
        A finder of an editable install, which knows one module's folder, is asked.
        """
        lines = over_layer(
            PLACES
            + """
from importlib.util import spec_from_file_location
folder = portion() / "langgraph/checkpoint/mydb"
class Editable:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname == "langgraph.checkpoint.mydb":
            return spec_from_file_location(fullname, folder / "__init__.py")
sys.meta_path.append(Editable)
from langgraph.checkpoint.mydb import MySaver, ROWS
print(bases(MySaver), ROWS)
"""
        )

        assert lines == ["['actorgraph.api.savers.base_saver'] rows"]

    def test_a_folder_that_a_program_adds_to_the_package(self):
        """
        `__path__` may be appended to, and replaced.
        """
        lines = over_layer(
            PLACES
            + """
import langgraph.checkpoint, langgraph.store
langgraph.checkpoint.__path__.append(str(portion() / "langgraph/checkpoint"))
place = portion("langgraph.store.mydb") / "langgraph/store"
langgraph.store.__path__ = [*langgraph.store.__path__, str(place)]
import langgraph.checkpoint.mydb, langgraph.store.mydb
print(langgraph.checkpoint.mydb.ROWS, langgraph.store.mydb.ROWS)
"""
        )

        assert lines == ["rows rows"]


class TestOneLibrary:
    def test_no_file_of_langgraph_is_loaded(self):
        """
        A foreign module that imports all that savers need leaves LangGraph's files unread.
        """
        lines = over_layer(
            PLACES
            + """
sys.path.append(str(portion(text='''
from langgraph.checkpoint.base import (WRITES_IDX_MAP, BaseCheckpointSaver, ChannelVersions,
    Checkpoint, CheckpointMetadata, CheckpointTuple, PendingWrite, get_checkpoint_id,
    get_checkpoint_metadata)
from langgraph.checkpoint.serde.base import SerializerProtocol, maybe_add_typed_methods
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS
from langgraph.checkpoint.serde.types import ChannelProtocol
from langgraph.store.base import *
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.cache.base import BaseCache, FullKey, Namespace, ValueT
''')))
import langgraph.checkpoint.mydb
ours = [n for n, m in sys.modules.items() if n.startswith("langgraph.")
        and "mydb" not in n and not getattr(m, "is_compat_module", False)]
print(ours)
"""
        )

        assert lines == ["[]"]

    def test_listing_shows_the_modules(self):
        """
        `pkgutil.iter_modules` lists a foreign module, and importing all it lists gives our classes.
        """
        lines = over_layer(
            PLACES
            + """
import pkgutil, importlib, langgraph.checkpoint
sys.path.append(str(portion()))
found = {one.name for one in pkgutil.iter_modules(langgraph.checkpoint.__path__)}
print("mydb" in found)
from importlib.util import find_spec
print(find_spec("langgraph.checkpoint.mydb").origin.endswith("mydb/__init__.py"))
"""
        )

        assert lines == ["True", "True"]

    def test_its_objects_can_be_pickled(self):
        """
        A foreign class and an instance of it survive pickle.
        """
        lines = over_layer(
            PLACES
            + """
import builtins, pickle
__builtins__ = builtins  # pickle looks for it in the program's names
sys.path.append(str(portion(text=SAVER + "class Row(tuple): pass")))
from langgraph.checkpoint.mydb import MySaver, Row
print(pickle.loads(pickle.dumps(MySaver)) is MySaver, pickle.loads(pickle.dumps(Row((1,)))))
"""
        )

        assert lines == ["True (1,)"]

    def test_uninstalled_they_are_imported_anew(self):
        """
        After `uninstall()` a foreign module has LangGraph's base class.
        """
        lines = over_layer(
            PLACES
            + """
import actorgraph.compat
sys.path.append(str(portion()))
from langgraph.checkpoint.mydb import MySaver
actorgraph.compat.uninstall()
from langgraph.checkpoint.mydb import MySaver as again
print(bases(MySaver), bases(again))
"""
        )

        assert lines == ["['actorgraph.api.savers.base_saver'] ['langgraph.checkpoint.base']"]


class TestMissing:
    def test_a_missing_module_names_the_package_to_install(self):
        """
        `import langgraph.checkpoint.redis` without its package says which one to install.
        """
        lines = over_layer(
            """
for module in ("langgraph.checkpoint.redis", "langgraph.store.mongodb"):
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        print(str(error).replace(chr(10), " "))
"""
        )

        assert "actorgraph has no module 'langgraph.checkpoint.redis'" in lines[0]
        assert "install the package that has it, such as langgraph-checkpoint-redis" in lines[0]
        assert "such as langgraph-store-mongodb" in lines[1]

    def test_a_part_that_a_foreign_package_lacks_is_python_s_error(self):
        """
        A missing submodule of a foreign package gives Python's own text.
        """
        lines = over_layer(
            PLACES
            + """
sys.path.append(str(portion()))
try:
    import langgraph.checkpoint.mydb.other
except ModuleNotFoundError as error:
    print(error, error.name)
"""
        )

        assert lines == [
            "No module named 'langgraph.checkpoint.mydb.other' langgraph.checkpoint.mydb.other"
        ]

    def test_a_found_module_is_not_reported_as_missing(self):
        """
        `from langgraph.checkpoint import mydb` leaves nothing in the report's missing names.
        """
        lines = over_layer(
            PLACES
            + """
import actorgraph.compat
sys.path.append(str(portion()))
from langgraph.checkpoint import mydb
print([one for one in actorgraph.compat.report() if one.missing])
"""
        )

        assert lines == ["[]"]

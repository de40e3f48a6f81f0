"""Classes of libraries that every codec knows, and how their objects are built again."""

import sys
from types import SimpleNamespace
from typing import Any

import pydantic
import pydantic.v1
import pytest

from actorgraph.codec.library_types import (
    build_old_model,
    build_secret,
    build_slotted,
    is_old_model,
    is_secret,
    is_slotted,
    library_of,
    library_type,
    message_type,
    pack_old_model,
    pack_secret,
    pack_slots,
)
from actorgraph.stores.operations import Item, SearchItem
from actorgraph.values.ids import created_of

DOCUMENT = "langchain_core.documents.base:Document"


class Old(pydantic.v1.BaseModel):
    text: str
    count: int = 3
    _hidden: list[int] = pydantic.v1.PrivateAttr(default_factory=lambda: [7])


class Closed(pydantic.v1.BaseModel):
    text: str = ""


class Open(Closed):
    class Config:
        extra = "allow"


class Named(pydantic.SecretStr):
    pass


def item(**changes: Any) -> Item:
    """An item of a store."""
    when = created_of(b"\x1e" * 16)
    given = {"key": "k", "namespace": ("a",), "created_at": when, "updated_at": when}
    return Item(value={"n": 1}, **{**given, **changes})


class TestNames:
    def test_a_class_that_is_imported(self):
        """
        A listed class is found by its own name, once its module is imported.
        """
        assert library_type("pydantic.types:SecretStr") is pydantic.SecretStr
        assert library_type("actorgraph.stores.operations:Item") is Item
        assert library_type("pydantic.types:StrictStr") is None

    @pytest.mark.parametrize("there", [SimpleNamespace(Document=7), SimpleNamespace(Document=Old)])
    def test_another_object_of_the_name(self, there, monkeypatch):
        """
        The name is unknown if it leads to another object or class, or its module isn't imported.
        """
        monkeypatch.setitem(sys.modules, "langchain_core.documents.base", there)
        assert library_type(DOCUMENT) is None
        monkeypatch.delitem(sys.modules, "langchain_core.documents.base")
        assert library_type(DOCUMENT) is None

    @pytest.mark.parametrize(
        ("name", "module"),
        [
            (DOCUMENT, "langchain_core.documents.base"),
            ("langchain_core.messages.human:HumanMessage", "langchain_core.messages.human"),
            ("langchain_core.messages.x:A:B", "langchain_core.messages.x"),
            ("pydantic.types:StrictStr", None),
            ("app:Note", None),
        ],
    )
    def test_the_module_to_import(self, name, module):
        """
        The module of a listed class or of a LangChain message is known from its name.
        """
        assert library_of(name) == module

    @pytest.mark.parametrize(
        "name", ["langchain_core.messages.human:HumanMessage:X", "langchain_core.messages.:"]
    )
    def test_other_names_of_the_module(self, name):
        """
        A name that no class has isn't a message's.
        """
        pytest.importorskip("langchain_core.messages", reason="langchain-core is not installed")
        assert message_type(name) is None

    def test_messages_without_langchain(self, monkeypatch):
        """
        Where LangChain isn't imported, its messages are unknown.
        """
        monkeypatch.delitem(sys.modules, "langchain_core.messages", raising=False)
        monkeypatch.delitem(sys.modules, "langchain_core", raising=False)
        assert message_type("langchain_core.messages.human:HumanMessage") is None


class TestSlots:
    def test_an_item_comes_back(self):
        """
        An item of a store is built of its slots; a search's item has its score too.
        """
        made = SearchItem(("a",), "k", {"n": 1}, item().created_at, item().updated_at, 0.5)

        for value in (item(), made):
            built = build_slotted(type(value), pack_slots(value))
            assert (type(built), built, pack_slots(built)) == (
                type(value),
                value,
                pack_slots(value),
            )

    def test_which_classes(self):
        """
        Only the listed classes themselves are stored slot by slot, not others of their names.
        """
        other = type("Item", (), {"__slots__": ("key",)})
        twin = type("Item", (), {"__slots__": ("key",), "__module__": Item.__module__})

        assert is_slotted(Item)
        assert is_slotted(SearchItem)
        assert not is_slotted(other)
        assert not is_slotted(twin)
        assert not is_slotted(pydantic.SecretStr)

    def test_other_attributes_are_refused(self):
        """
        Missing and unknown attributes are named, and a class that isn't stored so has none.
        """
        with pytest.raises(ValueError, match=r"^Item doesn't have .* attributes \['a', 'b'\]$"):
            build_slotted(Item, {"b": 1, "a": 2})
        with pytest.raises(ValueError, match=r"^Other doesn't have the stored attributes \['x'\]$"):
            build_slotted(type("Other", (), {"__slots__": ("x",)}), {"x": 1})


class TestSecrets:
    def test_secrets_come_back(self):
        """
        Secrets of text and of bytes, of both versions of pydantic, and of a subclass.
        """
        v1 = pydantic.v1
        for kind, data in [
            (pydantic.SecretStr, "x"),
            (pydantic.SecretBytes, b"x"),
            (v1.SecretStr, "x"),
            (v1.SecretBytes, b"x"),
            (Named, "x"),
        ]:
            made = build_secret(kind, pack_secret(kind(data)))
            assert (is_secret(kind), type(made), made.get_secret_value()) == (True, kind, data)

    @pytest.mark.parametrize(("kind", "data"), [(pydantic.SecretStr, 7), (Old, "x")])
    def test_other_data_is_refused(self, kind, data):
        """
        A class that holds no secret, and data that is neither text nor bytes.
        """
        with pytest.raises(ValueError, match="can't be made of") as refused:
            build_secret(kind, data)
        made_of = type(data).__name__
        assert str(refused.value) == f"{kind.__name__} can't be made of {made_of}"


class TestOldModels:
    def test_a_model_comes_back(self):
        """
        A model of pydantic 1 has its fields, the names of those that were given, and its private
        attributes; its validators don't run.
        """
        value = Old(text="a")
        value._hidden.append(8)  # noqa: SLF001 - what is tested
        made = build_old_model(Old, pack_old_model(value))

        assert pack_old_model(value) == [{"text": "a", "count": 3}, ["text"], {"_hidden": [7, 8]}]
        assert (type(made), made, made.__fields_set__) == (Old, value, {"text"})
        assert made._hidden == [7, 8]  # noqa: SLF001
        assert build_old_model(Old, [{"text": 5}, [], {}]).text == 5

    def test_defaults_of_new_parts(self):
        """
        Fields and private attributes that the stored model didn't have get their defaults.
        """
        made = build_old_model(Old, [{"text": "a"}, ["text"], {}])

        assert (made.count, made._hidden, made.__fields_set__) == (3, [7], {"text"})  # noqa: SLF001

    def test_a_field_that_is_gone(self):
        """
        It is refused, named with its class, unless the class takes any field.
        """
        with pytest.raises(ValueError, match="has no field 'b' any more") as refused:
            build_old_model(Closed, [{"z": 1, "b": 2, "text": ""}, [], {}])
        assert str(refused.value) == f"{__name__}:Closed has no field 'b' any more"
        assert build_old_model(Open, [{"z": 1, "text": ""}, ["z"], {}]).z == 1

    def test_which_classes(self):
        """
        A model of pydantic 1 has fields, a config and a constructor without validation.
        """
        assert is_old_model(Old)
        assert not is_old_model(pydantic.SecretStr)
        assert not is_old_model(type("Half", (), {"__fields__": {}, "__config__": None}))
        assert not is_old_model(type("Half", (), {"construct": None, "__config__": None}))
        assert not is_old_model(type("Half", (), {"construct": None}))

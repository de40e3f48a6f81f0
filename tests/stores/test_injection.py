"""Text like SQL or a JSON path is data: as label, key, field, value, operand, limit."""

import sqlite3

import pytest

from actorgraph.stores import PutOp, SearchOp, StoreError

PIECES = ["'", '"', "`", ";", "--", "/*", "*/", "\\", "%", "_", "$", "?", ":x", "@", "{}", "[", "*"]
ATTACKS = [
    "' OR '1'='1",
    "') OR 1=1 --",
    '") OR 1=1 --',
    "x'; DROP TABLE memory_items; --",
    "1; DELETE FROM memory_items",
    "') UNION SELECT namespace, key, value, 1, 1, NULL, NULL FROM memory_items --",
    "a\n",
    "a') IS NOT NULL OR json_extract(value, '$",
    '$."secret"',
    "$.secret",
    "$[0]",
    "secret') = 'x' OR ('",
    "a/b",
    "../../etc/passwd",
    "%s%n",
    ":filter",
    "?1",
    "\\'; --",
    "NULL",
    "0x31",
    *(f"{before}{piece}{after}" for piece in PIECES for before in ("", "x") for after in ("", "'")),
    *(f"secret{piece}" for piece in PIECES),
]
EVIL = [*ATTACKS, *(f"{attack}{piece}" for attack in ATTACKS[:12] for piece in PIECES)]


def test_the_list_is_long():
    """
    Three hundred different texts.
    """
    assert len(set(EVIL)) >= 300


@pytest.mark.promise("T32")
def test_filters_are_data(store):
    """
    As field or operand of a filter, none of them finds an item that hasn't got it.
    """
    store.put(("other",), "row", {"secret": "x", "n": 1})

    wanted = [{text: "x"} for text in EVIL]
    wanted += [{"secret": text} for text in EVIL]
    wanted += [{"n": {"$gt": text}} for text in EVIL]
    wanted += [{"secret": {"$eq": {text: text}}} for text in EVIL]
    found = store.batch([SearchOp((), filter=w) for w in wanted if "$" not in str(w)[:4]])

    assert [rows for rows in found if rows] == []
    assert [item.value for item in store.search(())] == [{"secret": "x", "n": 1}]


@pytest.mark.promise("T32")
def test_keys_fields_and_labels_are_data(store):
    """
    Each of them is a key, a field and a label as any other: found again, and alone.
    """
    labels = [text for text in dict.fromkeys(EVIL) if "." not in text]
    store.batch([PutOp(("l", label), label, {label: label}) for label in labels])

    found = store.batch([SearchOp(("l", label)) for label in labels])
    assert [[item.key for item in rows] for rows in found] == [[label] for label in labels]
    fields = [label for label in labels if not label.startswith("$")]
    found = store.batch([SearchOp(("l",), filter={label: label}) for label in fields])
    assert [[item.key for item in rows] for rows in found] == [[label] for label in fields]
    assert store.list_namespaces(prefix=("l", "*"), limit=9999) == sorted(("l", x) for x in labels)


@pytest.mark.promise("T32")
@pytest.mark.parametrize("field", ["limit", "offset"])
def test_numbers_are_numbers(store, field):
    """
    A limit or an offset that is text is refused.
    """
    for text in EVIL[:20]:
        with pytest.raises(StoreError):
            store.batch([SearchOp((), **{field: text})])


@pytest.mark.promise("T32")
def test_the_schema_is_as_it_was(shelf):
    """
    After all of them as label, key, field and value, tables and rows of others are there.
    """
    store = shelf.open()
    store.put(("other",), "row", {"secret": "x"})
    for text in EVIL:
        store.put(("mine",), text, {text: text})
        store.search(("mine",), filter={"a": text})
        store.delete(("mine",), text)

    assert [item.key for item in store.search(())] == ["row"]
    if shelf.kind == "sqlite":
        with sqlite3.connect(shelf.path) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        connection.close()
        assert {"memory_items", "memory_vectors", "memory_format"} <= names

"""Searches by text: what is embedded, how, and what is near."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import get_text_at_path as their_texts

from actorgraph.errors import RunningLoopError
from actorgraph.stores import (
    EmbeddingError,
    InMemoryStore,
    InvalidStoreOperationError,
    ensure_embeddings,
    get_text_at_path,
)
from actorgraph.stores.embedding import _plain_cosines, ranked

WORDS = ["cat", "dog", "car"]


def embed(texts):
    """The number of times that each word is in a text; never nothing."""
    return [[text.count(word) + 0.01 for word in WORDS] for text in texts]


async def aembed(texts):
    return embed(texts)


class Langchain:
    """An object as LangChain's: its async methods work on asyncio only."""

    def embed_documents(self, texts):
        return embed(texts)

    def embed_query(self, text):
        return embed([text])[0]


INDEX = {"dims": 3, "embed": embed, "fields": ["text", "tags[*]"]}


async def fill(store):
    await store.aput(("pets",), "tom", {"text": "the cat sat", "tags": ["small"]})
    await store.aput(("pets",), "rex", {"text": "a dog", "tags": ["dog", "a cat and a cat"]})
    await store.aput(("cars",), "vw", {"text": "car car"})
    await store.aput(("pets",), "none", {"text": "cat"}, index=False)
    await store.aput(("pets",), "other", {"about": {"what": "dog"}}, index=["about.what"])


def keys(found):
    return [item.key for item in found]


class TestSearch:
    @pytest.mark.promise("S182")
    @pytest.mark.langgraph("F-I4", "F-I6")
    @pytest.mark.parametrize("function", [embed, aembed, Langchain()])
    async def test_the_nearest_come_first(self, shelf, function):
        """
        With an embedding function of either kind, or an object, the nearest item is the first.
        """
        store = shelf.open(index=INDEX | {"embed": function})
        await fill(store)

        found = await store.asearch((), query="cat")

        assert keys(found)[0] in {"tom", "rex"}
        assert found[0].score == pytest.approx(1.0, abs=0.01)
        assert keys(await store.asearch((), query="car"))[0] == "vw"
        assert set(keys(await store.asearch(("pets",), query="dog", limit=2))) == {"other", "rex"}

    @pytest.mark.langgraph("F-I4")
    async def test_an_item_counts_once_by_its_best_text(self, shelf):
        """
        An item with several texts has the rank of the nearest of them.
        """
        store = shelf.open(index=INDEX)
        await fill(store)

        found = await store.asearch(("pets",), query="cat", limit=99)

        assert sorted(keys(found)) == ["none", "other", "rex", "tom"]
        assert {item.key for item in found[:2]} == {"tom", "rex"}
        assert found[-1].score is None

    @pytest.mark.langgraph("F-I4")
    async def test_items_without_vectors_come_last_and_once(self, shelf):
        """
        Pages hold every item once: the scored ones, then those that have no vector.
        """
        store = shelf.open(index=INDEX)
        await fill(store)
        await store.aput(("pets",), "blank", {"x": 1})

        pages = [await store.asearch((), query="cat", limit=2, offset=o) for o in (0, 2, 4, 6)]
        flat = [item for page in pages for item in page]

        assert len({item.key for item in flat}) == len(flat) == 6
        assert [item.score is None for item in flat] == [False] * 4 + [True] * 2

    async def test_filters_hold_in_searches_by_text(self, shelf):
        """
        Only what fits the filter is ranked, and only that fills up.
        """
        store = shelf.open(index=INDEX)
        await fill(store)

        found = await store.asearch((), query="cat", filter={"text": {"$ne": "cat"}}, limit=99)

        assert sorted(keys(found)) == ["other", "rex", "tom", "vw"]

    @pytest.mark.promise("S182")
    async def test_without_an_index_a_query_changes_nothing(self, shelf):
        """
        All items are found, without scores; `index=` of a put is ignored.
        """
        store = shelf.open()
        await fill(store)

        found = await store.asearch(("pets",), query="cat", limit=99)

        assert keys(found) == keys(await store.asearch(("pets",), limit=99))
        assert {item.score for item in found} == {None}

    async def test_a_new_value_has_new_vectors(self, shelf):
        """
        Embeddings of the old value, and of deleted items, are gone.
        """
        store = shelf.open(index=INDEX)
        await fill(store)
        await store.aput(("pets",), "tom", {"text": "car"})
        await store.adelete(("pets",), "rex")

        assert keys(await store.asearch(("pets",), query="car", limit=1)) == ["tom"]
        assert "rex" not in keys(await store.asearch((), query="dog", limit=99))

    def test_a_repeated_text_is_embedded_once(self, shelf):
        """
        One call embeds each text of a batch once.
        """
        calls = []

        def counted(texts):
            calls.append(list(texts))
            return embed(texts)

        store = shelf.open(index=INDEX | {"embed": counted})
        store.put(("a",), "k", {"text": "cat", "tags": ["cat", "dog"]})

        assert calls == [["cat", "dog"]]

    async def test_async_functions_in_blocking_methods(self, shelf):
        """
        Where a loop runs, a blocking method says to use the async one.
        """
        store = shelf.open(index=INDEX | {"embed": aembed})

        with pytest.raises(RunningLoopError, match="asearch"):
            store.put(("a",), "k", {"text": "cat"})

    def test_async_functions_without_a_loop(self, shelf):
        """
        Where none runs, a blocking method runs the function in a loop of its own.
        """
        store = shelf.open(index=INDEX | {"embed": aembed})
        store.put(("a",), "k", {"text": "cat"})

        assert store.search((), query="cat")[0].score == pytest.approx(1.0, abs=0.001)


class TestRefused:
    @pytest.mark.parametrize("wrong", [[], [[1.0, 2.0]], [["x", 1, 2]], [None], [[1.0] * 3] * 2])
    def test_wrong_vectors_are_refused(self, shelf, wrong):
        """
        Too few vectors, a wrong length, or no numbers: nothing of the batch is stored.
        """
        store = shelf.open(index=INDEX | {"embed": lambda _: wrong})

        with pytest.raises(EmbeddingError):
            store.put(("a",), "k", {"text": "cat"})
        assert store.get(("a",), "k") is None

    @pytest.mark.parametrize("index", [{}, {"dims": 0, "embed": embed}, {"dims": 3}])
    def test_an_index_that_can_not_be(self, index):
        """
        An index says how long its vectors are and what makes them.
        """
        with pytest.raises(InvalidStoreOperationError):
            InMemoryStore(index=index)

    def test_a_name_needs_langchain(self):
        """
        A provider's name is LangChain's business; without it the error says so.
        """
        with pytest.raises(ImportError, match="langchain"):
            ensure_embeddings("openai:text-embedding-3-small")


class TestParts:
    @pytest.mark.langgraph("F-I6")
    def test_paths(self):
        """
        Names, elements, all elements, several fields, the whole.
        """
        value = {"a": {"b": [{"c": "x"}, {"c": 2}]}, "d": None, "e": [True]}

        assert get_text_at_path(value, "a.b[*].c") == ["x", "2"]
        assert get_text_at_path(value, "a.b[-1].c") == ["2"]
        assert get_text_at_path(value, "a.b[9]") == []
        assert get_text_at_path(value, "{d,e,a.b}") == ["[true]", '[{"c": "x"}, {"c": 2}]']
        assert get_text_at_path({"b": 1, "a": "☺"}, "$") == ['{"a": "☺", "b": 1}']

    @pytest.mark.langgraph("F-I6")
    @given(
        st.lists(st.sampled_from(["a", "b", "[0]", "[*]", "[-1]", "*", "[x]"]), max_size=4),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text("ab"),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from("ab1"), inner, max_size=3)
            ),
            max_leaves=8,
        ),
    )
    def test_paths_are_langgraphs(self, steps, value):
        """
        The same texts as LangGraph finds, for any path without braces.
        """
        path = ".".join(steps)

        assert get_text_at_path(value, path) == their_texts(value, path)

    @given(st.lists(st.lists(st.floats(-9, 9, width=32), min_size=2, max_size=2), max_size=6))
    def test_scores_are_cosines(self, vectors):
        """
        With numpy and without, the score is the cosine; a vector of zeros is near to nothing.
        """
        from array import array

        packed = [array("f", vector).tobytes() for vector in vectors]
        query = array("f", [1.0, 2.0]).tobytes()

        got = dict(ranked(query, enumerate(packed)))
        plain = _plain_cosines(query, packed)

        assert len(got) == len(vectors)
        for number, (x, y) in enumerate(vectors):
            length = math.hypot(x, y) * math.sqrt(5)
            # Squares of tiny numbers are no float32.
            if length > 1e-10 or length == 0:
                wanted = (x + 2 * y) / length if length else 0.0
                assert got[number] == pytest.approx(wanted, abs=1e-4)
                assert plain[number] == pytest.approx(wanted, abs=1e-4)

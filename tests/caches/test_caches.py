"""The caches themselves: what they find, what they forget, and that they hold in a crowd."""

import stat
from typing import Any

import anyio
import pytest

from actorgraph.caches import BaseCache, InMemoryCache, SqliteCache
from actorgraph.codec import Codec
from actorgraph.errors import InvalidConfigError, StorageError

SPACE, OTHER = ("a", "b"), ("a,b",)


@pytest.fixture(params=["memory", "sqlite", "sqlite-memory"])
def cache(request, tmp_path):
    """A cache of each kind, and its clock."""
    now = [1000.0]
    clock: Any = {"clock": lambda: now[0]}
    if request.param == "memory":
        yield InMemoryCache(**clock), now
    else:
        path = tmp_path / "cache.db" if request.param == "sqlite" else ":memory:"
        with SqliteCache(path, **clock) as made:
            yield made, now


class TestEach:
    @pytest.mark.langgraph("F-K5")
    async def test_it_finds_what_it_keeps(self, cache):
        """
        Values come back under their whole keys; what isn't there is left out.
        """
        made, _ = cache
        await made.aset({(SPACE, "k"): ([1, "x"], None), (OTHER, "k"): (b"bytes", None)})

        found = await made.aget([(SPACE, "k"), (OTHER, "k"), (SPACE, "none")])

        assert found == {(SPACE, "k"): [1, "x"], (OTHER, "k"): b"bytes"}
        assert made.get([]) == {}

    @pytest.mark.langgraph("F-K1", "F-K5")
    def test_expired_values_are_gone(self, cache):
        """
        A value is there until its seconds are over.
        """
        made, now = cache
        made.set({(SPACE, "short"): (1, 10), (SPACE, "long"): (2, None)})

        now[0] += 9.5
        assert set(made.get([(SPACE, "short"), (SPACE, "long")])) == {
            (SPACE, "short"),
            (SPACE, "long"),
        }
        now[0] += 1
        assert made.get([(SPACE, "short"), (SPACE, "long")]) == {(SPACE, "long"): 2}

    def test_a_new_value_replaces_the_old_one(self, cache):
        """
        The last value of a key counts, with its own time to live.
        """
        made, now = cache
        made.set({(SPACE, "k"): (1, 10)})
        made.set({(SPACE, "k"): (2, None)})
        now[0] += 11

        assert made.get([(SPACE, "k")]) == {(SPACE, "k"): 2}

    @pytest.mark.langgraph("F-K4")
    async def test_clearing_a_namespace_leaves_the_others(self, cache):
        """
        Namespaces are compared by their parts; without any everything goes.
        """
        made, _ = cache
        made.set({(SPACE, "k"): (1, None), (OTHER, "k"): (2, None)})

        await made.aclear([SPACE])
        assert made.get([(SPACE, "k"), (OTHER, "k")]) == {(OTHER, "k"): 2}
        await made.aclear()
        assert made.get([(OTHER, "k")]) == {}

    async def test_many_at_once(self, cache):
        """
        Threads and tasks may use one cache together.
        """
        made, _ = cache

        async def use(n: int) -> None:
            await made.aset({(SPACE, str(n)): (n, None)})
            assert await made.aget([(SPACE, str(n))]) == {(SPACE, str(n)): n}
            await anyio.to_thread.run_sync(made.set, {(SPACE, f"t{n}"): (n, None)})

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(use, n)

        assert len(made.get([(SPACE, f"t{n}") for n in range(20)])) == 20


class TestMemory:
    def test_the_one_used_longest_ago_makes_room(self):
        """
        A full cache forgets the least recently used results.
        """
        made: BaseCache[int] = InMemoryCache(entries_max=2)
        made.set({(SPACE, "a"): (1, None), (SPACE, "b"): (2, None)})
        made.get([(SPACE, "a")])
        made.set({(SPACE, "c"): (3, None)})

        assert set(made.get([(SPACE, k) for k in "abc"])) == {(SPACE, "a"), (SPACE, "c")}

    def test_a_cache_without_room_is_refused(self):
        """
        `entries_max` is at least one.
        """
        with pytest.raises(InvalidConfigError, match="entries_max"):
            InMemoryCache(entries_max=0)

    def test_later_changes_of_a_value_do_not_reach_the_cache(self):
        """
        A cache keeps what a value was, not the object.
        """
        value = [1]
        made: BaseCache[list[int]] = InMemoryCache()
        made.set({(SPACE, "k"): (value, None)})
        value.append(2)

        assert made.get([(SPACE, "k")]) == {(SPACE, "k"): [1]}


class TestSqlite:
    @pytest.mark.langgraph("F-K5")
    def test_another_object_over_the_file_finds_it(self, tmp_path):
        """
        Results that one process keeps, the next one finds, in a file that only its owner reads.
        """
        path = tmp_path / "cache.db"
        with SqliteCache[int](path) as first:
            first.set({(SPACE, "k"): (1, None)})
            with SqliteCache[int](path) as second:
                assert second.get([(SPACE, "k")]) == {(SPACE, "k"): 1}

        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_file_that_can_not_be_made(self, tmp_path):
        """
        The error names the path.
        """
        with pytest.raises(StorageError, match="none/cache"):
            SqliteCache(tmp_path / "none" / "cache.db")

    def test_a_file_that_is_something_else(self, tmp_path):
        """
        A file that isn't a database is refused and left as it is.
        """
        path = tmp_path / "cache.db"
        path.write_text("not a database, but long enough to be looked at as one" * 100)
        with pytest.raises(StorageError, match="as a cache"):
            SqliteCache(path)

        assert path.read_text().startswith("not a database")


class TestOfOthers:
    def test_it_has_the_serializer_that_packages_pass_and_call(self):
        """
        A cache that encodes by `self.serde` gets the given one, or the codec; both at once are
        refused.
        """

        class Other(BaseCache[Any]):
            def get(self, keys):
                return {}

            def set(self, pairs):
                del pairs

            def clear(self, namespaces=None):
                del namespaces

        own = Codec()

        assert Other(serde=own).codec is own
        assert Other(serde=own).serde is own
        default = Other().serde
        assert default.loads_typed(default.dumps_typed(b"x")) == b"x"
        with pytest.raises(InvalidConfigError, match="both codec= and serde="):
            Other(codec=own, serde=own)

"""Buckets of threads, and run ids that carry them."""

from collections import Counter

import pytest
import uuid_utils
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.values.shards import BUCKETS, bucket_in, bucket_of, with_bucket

BUCKET = st.integers(0, BUCKETS - 1)


class TestBuckets:
    @pytest.mark.parametrize(
        ("thread_id", "bucket"),
        [("", 0xE3B), ("t1", 0x628), ("user:session:v2", 0x432), ("ä\U0001f600", 0x41C)],
    )
    def test_a_thread_keeps_its_bucket_over_versions(self, thread_id, bucket):
        """
        The bucket of an id is part of the stored format.
        """
        assert bucket_of(thread_id) == bucket

    def test_numbered_threads_spread_evenly(self):
        """
        Each sixteenth of the buckets gets a sixteenth of 20,000 similar ids, give or take 10 %.
        """
        counts = Counter(bucket_of(f"thread-{n}") // 256 for n in range(20_000))

        assert len(counts) == 16
        assert max(counts.values()) < 1.1 * 1250
        assert min(counts.values()) > 0.9 * 1250


class TestRunIds:
    @given(st.binary(min_size=16, max_size=16), BUCKET)
    def test_an_id_returns_its_bucket(self, run, bucket):
        """
        The bucket is read as it was put in, and nothing else of the id changes.
        """
        made = with_bucket(run, bucket)

        assert bucket_in(made) == bucket
        assert int.from_bytes(made) >> 12 == int.from_bytes(run) >> 12

    @given(st.lists(BUCKET, min_size=2, max_size=200))
    def test_ids_keep_their_order_by_time(self, buckets):
        """
        Ids that were made one after the other sort so, whatever buckets they get: also many of
        one millisecond.
        """
        made = [with_bucket(uuid_utils.uuid7().bytes, bucket) for bucket in buckets]

        assert made == sorted(made)
        assert len(set(made)) == len(made)

    def test_they_are_still_uuids_of_version_7(self):
        """
        The version and the variant stay.
        """
        made = uuid_utils.UUID(bytes=with_bucket(uuid_utils.uuid7().bytes, BUCKETS - 1))

        assert (made.version, made.variant) == (7, uuid_utils.uuid7().variant)

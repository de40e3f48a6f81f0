"""Fingerprints of functions: equal for equal code and what it holds, for nothing else."""

import functools
from dataclasses import dataclass

from actorgraph.codec import Codec
from actorgraph.codec.fingerprint import fingerprint

CODEC = Codec()


def make(held):
    def inner(state):
        return held

    return inner


def of(function, codec=CODEC):
    return fingerprint(function, codec)


@dataclass
class Bound:
    n: int

    def method(self, state):
        return self.n


class TestFingerprint:
    def test_the_same_code_made_twice_is_the_same(self):
        """
        Two functions of one factory that hold equal data have one fingerprint.
        """
        assert of(make([1, {"a": 2}])) == of(make([1, {"a": 2}])) is not None

    def test_values_held_by_a_function_count(self):
        """
        Closures, defaults, bound arguments, inner functions and bound objects make a difference.
        """

        def plain(state, *, n=1):
            return n

        def other(state, *, n=2):
            return n

        codec = Codec([Bound])
        pairs = [
            (make(1), make(2)),
            (make(make(1)), make(make(2))),
            (functools.partial(plain, n=1), functools.partial(plain, n=2)),
            (plain, other),
            (Bound(1).method, Bound(2).method),
            (lambda s: 1, lambda s: 2),
            (lambda s: s in {"a", "b"}, lambda s: s in {"a", "c"}),
            (make(int), make(str)),
        ]

        for one, two in pairs:
            assert of(one, codec) is not None
            assert of(one, codec) == of(one, codec)
            assert of(one, codec) != of(two, codec)

    def test_an_object_other_than_data_has_no_fingerprint(self):
        """
        A function that holds a client or a lock has none.
        """
        assert of(make(object())) is None
        assert of(Bound(1).method) is None

    def test_a_function_that_holds_itself(self):
        """
        Recursion in a closure ends.
        """

        def outer():
            def inner(state):
                return inner

            return inner

        assert of(outer()) == of(outer()) is not None

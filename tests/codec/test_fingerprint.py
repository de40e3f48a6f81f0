"""Fingerprints of functions: equal for equal code and what it holds, for nothing else."""

import functools
import math
import operator
import types
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

    def other(self, state):
        return -self.n


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
        assert of(operator.attrgetter("n")) is None

    def test_a_function_that_holds_itself(self):
        """
        Recursion in a closure ends.
        """

        def outer():
            def inner(state):
                return inner

            return inner

        assert of(outer()) == of(outer()) is not None

    def test_each_part_of_the_code_counts(self):
        """
        Names, variables, constants, inner functions, defaults, the module and the function's own
        name make a difference.
        """

        def renamed(name, value=lambda s: s.a, module=__name__, defaults=None, named=None):
            made = types.FunctionType(value.__code__, {}, name, defaults)
            made.__kwdefaults__ = named
            made.__qualname__, made.__module__ = name, module
            return made

        functions = [
            renamed("f", lambda s: s.a),
            renamed("g", lambda s: s.a),
            renamed("f", lambda s: s.a, "elsewhere"),
            renamed("f", lambda s: s.b),
            renamed("f", lambda t: t.a),
            renamed("f", lambda s: s.a + 1),
            renamed("f", lambda s: s.a + 1.0),
            renamed("f", lambda s: s.a - 1),
            renamed("f", lambda s: s in {"a", "b"}),
            renamed("f", lambda s: s in {"a", b"b"}),
            renamed("f", lambda s: lambda: 1),
            renamed("f", lambda s: lambda: 2),
            renamed("f", defaults=(1,)),
            renamed("f", defaults=(2,)),
            renamed("f", defaults=(1, 2)),
            renamed("f", named={"s": 1}),
            renamed("f", named={"s": 2}),
            renamed("f", named={"t": 1}),
            type("same", (), {"__module__": "one"}),
            type("same", (), {"__module__": "other"}),
            len,
            sorted,
            math,
            operator,
            int,
            math.sqrt,
        ]
        marks = [of(function) for function in functions]

        assert None not in marks
        assert len(set(marks)) == len(marks)
        assert [of(function) for function in functions] == marks
        assert {len(mark) for mark in marks} == {32}

    def test_each_part_of_a_bound_call_counts(self):
        """
        A partial is its function with its arguments, by position and by name; a bound method is
        its function with its object.
        """
        codec = Codec([Bound])
        made = [
            functools.partial(max, 1),
            functools.partial(min, 1),
            functools.partial(max, 2),
            functools.partial(max, key=1),
            functools.partial(max, key=2),
            functools.partial(max, other=1),
            functools.partial(max),
            Bound(1).method,
            Bound(1).other,
            Bound(2).method,
            types.MethodType(make([1]), Bound(1)),
            types.MethodType(make([2]), Bound(1)),
        ]
        marks = [of(each, codec) for each in made]

        assert None not in marks
        assert len(set(marks)) == len(marks)

    def test_parts_do_not_run_together(self):
        """
        Where one part ends and the next begins makes a difference.
        """
        assert of(functools.partial(max, "ab", "c")) != of(functools.partial(max, "a", "bc"))
        assert of(make(["a", "b"])) != of(make(["ab"]))

    def test_equal_sets_are_equal(self):
        """
        The order in which a constant set is held makes no difference.
        """
        one, two = compile("s in {'a', 'b', 'c', 8, 0}", "", "eval"), "s in {'a', 8, 'c', 0, 'b'}"
        codes = [one, compile(two, "", "eval")]
        first, second = (of(types.FunctionType(code, {}, "f")) for code in codes)

        assert first == second is not None

    def test_a_variable_that_is_not_set_yet(self):
        """
        A function whose closure has no value yet has no fingerprint.
        """

        def outer():
            def inner(state):
                return later

            found = of(inner)
            later = 1
            return found, of(inner)

        before, after = outer()

        assert before is None
        assert after is not None

    def test_the_same_object_twice(self):
        """
        An object that is held in two places is one part of it.
        """
        held = make(1)

        assert of(functools.partial(max, held, held)) is None
        assert of(make(held)) == of(make(make(1)))

"""Signatures of a program's functions, which may say little or name what doesn't exist."""

import sys
from typing import Any

import pytest

from actorgraph import Codec
from actorgraph.errors.signatures import signature_of, takes

FROM_3_14 = pytest.mark.skipif(sys.version_info < (3, 14), reason="older ones evaluate it earlier")


def test_arguments_that_a_function_takes():
    """
    Arguments are compared by position with the parameters.
    """
    assert takes(lambda a, b=1: None, 1)
    assert takes(lambda *a: None, 1, 2, 3)
    assert not takes(lambda a: None, 1, 2)
    assert not takes(lambda a, *, b: None, 1)


def test_a_builtin_that_says_nothing_takes_all():
    """
    Python knows no signature of some builtins.
    """
    with pytest.raises(ValueError, match="signature"):
        signature_of(dict)
    assert takes(dict, 1, 2, 3)


@FROM_3_14
class TestNamesOfTypeCheckers:
    def test_a_signature(self):
        """
        A name that doesn't exist at run time stays in the signature.
        """

        def function(a: Missing, b: int) -> None: ...  # type: ignore[name-defined] # noqa: F821

        assert [*signature_of(function).parameters] == ["a", "b"]
        assert not takes(function, 1)

    def test_a_codec(self):
        """
        A subclass of Codec may name such types.
        """

        class Own(Codec):
            def decode(
                self,
                payload: Missing,  # type: ignore[name-defined] # noqa: F821
                place: Any = None,
            ) -> Any:
                return super().decode(payload)

        assert Own().decode(Own().encode(1)) == 1

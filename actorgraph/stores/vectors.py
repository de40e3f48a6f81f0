"""Ranking of vectors by their cosine with a query."""

import math
from array import array
from collections.abc import Iterable
from typing import Any, TypeVar

AddressT = TypeVar("AddressT")


def ranked(query: bytes, vectors: Iterable[tuple[AddressT, bytes]]) -> list[tuple[AddressT, float]]:
    """Return addresses with their best score, the best first; equal ones in the given order.

    Args:
        query: float32 numbers.
        vectors: (address, float32 numbers); vectors of another length than the query are left out.
    """
    fitting = [(address, vector) for address, vector in vectors if len(vector) == len(query)]
    best: dict[AddressT, float] = {}
    for (address, _), score in zip(fitting, _cosines(query, [v for _, v in fitting]), strict=True):
        best[address] = max(best.get(address, -1.0), min(score, 1.0))
    return sorted(best.items(), key=lambda entry: -entry[1])


def _cosines(query: bytes, vectors: list[bytes]) -> list[float]:
    if not vectors:
        return []
    try:
        import numpy as np
    except ImportError:
        return _plain_cosines(query, vectors)
    return _numpy_cosines(np, query, vectors)


def _numpy_cosines(np: Any, query: bytes, vectors: list[bytes]) -> list[float]:
    one = np.frombuffer(query, dtype=np.float32)
    rows = np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(vectors), -1)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    products = rows @ one
    # The cosine with a vector of zeros is undefined: it scores 0.
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0).tolist()


def _plain_cosines(query: bytes, vectors: list[bytes]) -> list[float]:
    one = array("f", query)
    length = math.sqrt(sum(x * x for x in one))
    scores: list[float] = []
    for packed in vectors:
        row = array("f", packed)
        lengths = length * math.sqrt(sum(x * x for x in row))
        product = sum(a * b for a, b in zip(one, row, strict=True))
        scores.append(product / lengths if lengths > 0 else 0.0)
    return scores

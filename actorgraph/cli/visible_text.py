"""Texts as a terminal may show them."""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing: C0 and C1 controls, marks of direction."""


def visible(text: str) -> str:
    """Replace the control characters of a text, which may come from a model or a client, by U+FFFD.

    Line feeds and tabs stay.
    """
    return _CONTROLS.sub("\ufffd", text)

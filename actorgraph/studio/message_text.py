"""The text of a message as markup: a small part of Markdown. Pure.

Paragraphs, headings, lists, quotes, code, bold, italic and links. Every character of the text is
escaped before a tag is put around it, HTML in it is text, and nothing is loaded: an image becomes
a link, and links lead only to http, https and mailto.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from markupsafe import Markup, escape

TEXT_MAX = 20_000
"""Characters of a message that are shown as Markdown; a longer text is shown as it is."""

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^#{1,6} +(.+?)#*$")
_ITEM = re.compile(r"^\s*(?:([-*+])|\d{1,9}[.)]) +(.*)$")
_CODE = re.compile(r"(`+)([^`]|[^`].*?[^`])\1(?!`)")
_SPAN = re.compile(
    r"\\(?P<kept>[\\`*_\[\]()!#])"
    r"|!?\[(?P<text>[^\[\]\n]{0,500})\]\((?P<to>[^\s()<>]{1,2000})\)"
    r"|(?P<bare>https?://[^\s<>\"'`]{1,2000})"
    r"|\*\*(?P<bold>\S|\S[^*\n]{0,1000}\S)\*\*"
    r"|(?<![\w*])[*](?P<star>[^\s*]|[^\s*][^*\n]{0,1000}[^\s*])[*](?![\w*])"
    r"|(?<!\w)_(?P<low>[^\s_]|[^\s_][^_\n]{0,1000}[^\s_])_(?!\w)"
)
_SAFE = re.compile(r"^(?:https?://|mailto:)", re.IGNORECASE)
_ENDS = ".,;:!?)"


def marked_up(text: str) -> Markup:
    """Return a text's Markdown as markup."""
    if len(text) > TEXT_MAX:
        return Markup("<p>{}</p>").format(text)
    return Markup().join(_blocks(text.split("\n")))


def _blocks(lines: list[str]) -> Iterator[Markup]:
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        item = _ITEM.match(line)
        if fence is not None:
            end = _until(lines, at + 1, lambda one, mark=fence[1]: one.strip().startswith(mark))
            yield Markup('<pre tabindex="0"><code>{}</code></pre>').format(
                "\n".join(lines[at + 1 : end])
            )
            at = end + 1
        elif not line.strip():
            at += 1
        elif (heading := _HEADING.match(line)) is not None:
            yield Markup('<p class="heading">{}</p>').format(_spans(heading[1].strip()))
            at += 1
        elif item is not None:
            end = _until(lines, at + 1, lambda one: _ITEM.match(one) is None)
            form = Markup("<ul>{}</ul>") if item[1] else Markup("<ol>{}</ol>")
            yield form.format(Markup().join(map(_item, lines[at:end])))
            at = end
        elif line.startswith(">"):
            end = _until(lines, at + 1, lambda one: not one.startswith(">"))
            inner = [one[1:].removeprefix(" ") for one in lines[at:end]]
            yield Markup("<blockquote>{}</blockquote>").format(_lines(inner))
            at = end
        else:
            end = _until(lines, at + 1, _begins_block)
            yield Markup("<p>{}</p>").format(_lines(lines[at:end]))
            at = end


def _until(lines: list[str], at: int, ends: Callable[[str], Any]) -> int:
    while at < len(lines) and not ends(lines[at]):
        at += 1
    return at


def _begins_block(line: str) -> bool:
    return not line.strip() or any(
        one is not None for one in (_FENCE.match(line), _HEADING.match(line), _ITEM.match(line))
    )


def _item(line: str) -> Markup:
    found = _ITEM.match(line)
    return Markup("<li>{}</li>").format(_spans(found[2] if found else line))


def _lines(lines: list[str]) -> Markup:
    return Markup("<br>").join(map(_spans, lines))


def _spans(text: str) -> Markup:
    """Mark up one line: code first, whose text is nothing else."""
    made, at = list[Markup](), 0
    for found in _CODE.finditer(text):
        made += _marks(text[at : found.start()])
        made.append(Markup("<code>{}</code>").format(found[2].strip() or found[2]))
        at = found.end()
    return Markup().join([*made, *_marks(text[at:])])


def _marks(text: str) -> Iterator[Markup]:
    at = 0
    for found in _SPAN.finditer(text):
        yield escape(text[at : found.start()])
        yield _mark(found)
        at = found.end()
    yield escape(text[at:])


def _mark(found: re.Match[str]) -> Markup:
    kind = found.lastgroup
    if kind == "kept":
        return escape(found["kept"])
    if kind == "to":
        return link(found["to"], found["text"] or found["to"])
    if kind == "bare":
        address = found["bare"].rstrip(_ENDS)
        return link(address, address) + escape(found["bare"][len(address) :])
    form = Markup("<strong>{}</strong>") if kind == "bold" else Markup("<em>{}</em>")
    return form.format(Markup().join(_marks(found[kind or 0])))


def link(address: str, text: str) -> Markup:
    """Return a link to another page; an address that isn't http, https or mailto is text."""
    if not _SAFE.match(address):
        return escape(text) if text == address else Markup("{} ({})").format(text, address)
    return Markup('<a href="{}" rel="noopener noreferrer nofollow" target="_blank">{}</a>').format(
        address, text
    )

"""The messages of a state as a conversation: who said what, with the tools that were called. Pure.

A state has messages under any key, as a list of: messages of this library or of LangChain, in each
form that they are stored and sent in, and dicts with `role` and `content`. Results of tools are
shown with the message that called them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from markupsafe import Markup

from actorgraph.studio.message_text import link, marked_up
from actorgraph.studio.shown import Moment, Shown, moment, plain, shown

SPOKEN_MAX = 50
"""Messages of one page, without results of tools."""
IMAGE_MAX = 2_000_000
"""Characters of an image in a message that is shown; of a page, `IMAGES_MAX`."""
IMAGES_MAX = 6_000_000
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WHO: Mapping[str, str] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "chat",
    "remove": "",
}
_TIMES = ("created_at", "timestamp", "created", "time", "date")
"""Keys under which a message may say when it was made."""


class Call(msgspec.Struct, frozen=True):
    """A call of a tool, with its result.

    Attributes:
        status: "waiting" without a result, "error" for a failed one, else "done".
    """

    id: str
    name: str
    args: Shown
    results: tuple[Markup, ...]
    status: str


class Said(msgspec.Struct, frozen=True):
    """One message.

    Attributes:
        who: "user", "assistant", "system", "tool" or "other".
        name: how the sender is shown.
        body: its content as markup.
        number: its place in the state, from 1.
    """

    id: str
    who: str
    name: str
    body: Markup
    calls: tuple[Call, ...]
    time: Moment | None
    number: int


class Conversation(msgspec.Struct, frozen=True):
    """A page of a state's messages, oldest first.

    Attributes:
        key: of the state; "" if the state itself is the list.
        keys: all keys with messages.
        first: the number of its first message; older ones are before it.
        total: messages of the state.
    """

    key: str
    keys: tuple[str, ...]
    said: tuple[Said, ...]
    first: int
    total: int
    newest: bool


def conversation_of(values: Any, key: str = "", before: int | None = None) -> Conversation | None:
    """Make a page of the conversation of a state; None if it has no messages.

    Args:
        values: the state's values, as they were read.
        key: of the list to show; by default "messages", or the first one with messages.
        before: the number of a message, above which the page ends.
    """
    found = _lists(values)
    if not found:
        return None
    chosen = key if key in found else "messages" if "messages" in found else next(iter(found))
    messages = found[chosen]
    end = len(messages) if before is None else min(max(before - 1, 0), len(messages))
    start, spoken = end, 0
    data: list[Mapping[str, Any]] = []
    while start > 0 and spoken < SPOKEN_MAX:
        start -= 1
        data.append(_data(messages[start]))
        spoken += _who(data[-1]) != "tool"
    said = tuple(_said(data[::-1], start + 1))
    return Conversation(chosen, tuple(found), said, start + 1, len(messages), end == len(messages))


def _lists(values: Any) -> dict[str, Sequence[Any]]:
    """Return the lists of messages in a state; the first and the last item say what a list is."""
    parts = cast("Mapping[Any, Any]", values) if isinstance(values, Mapping) else None
    if parts is None and not isinstance(values, list | tuple):
        parts = {name: getattr(values, name, None) for name in _names(values)}
    pairs = [("", values)] if parts is None else [(str(name), one) for name, one in parts.items()]
    return {name: cast("Sequence[Any]", one) for name, one in pairs if _has_messages(one)}


def _names(values: Any) -> Sequence[str]:
    """The fields of a state that is an object."""
    for name in ("__struct_fields__", "__dataclass_fields__"):
        found = getattr(type(values), name, None)
        if found is not None:
            return tuple(found)
    return tuple(getattr(type(values), "model_fields", ()))


def _has_messages(given: Any) -> bool:
    if not isinstance(given, list | tuple) or not given:
        return False
    items = cast("Sequence[Any]", given)
    return all(bool(_who(_data(one))) for one in (items[0], items[-1]))


def _data(message: Any) -> Mapping[str, Any]:
    """Return a message's fields; those of LangChain's constructor form are in "kwargs"."""
    if isinstance(message, str | int | float | bytes) or message is None:
        return {}
    found = plain(message)
    if not isinstance(found, Mapping):
        return {}
    fields = cast("Mapping[str, Any]", found)
    inner = fields.get("kwargs")
    if fields.get("lc") == 1 and isinstance(inner, Mapping):
        named = cast("list[Any]", fields.get("id") or [""])[-1]
        kind = str(named).removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind, **cast("Mapping[str, Any]", inner)}
    inner = fields.get("data")
    if "content" not in fields and isinstance(inner, Mapping) and "content" in inner:
        return {"type": fields.get("type"), **cast("Mapping[str, Any]", inner)}
    return fields


def _who(data: Mapping[str, Any]) -> str:
    """Return who said a message; "" if the data is none."""
    if not ("content" in data or "parts" in data):
        return ""
    role = data.get("role")
    if isinstance(role, str) and role:
        return _WHO.get(role, "other") if role != "chat" else "other"
    kind = data.get("type")
    if not isinstance(kind, str):
        return ""
    found = _WHO.get(kind.removesuffix("MessageChunk").lower(), "")
    return "other" if found == "chat" else found


def _said(messages: Sequence[Mapping[str, Any]], first: int) -> Iterator[Said]:
    """Make the messages of a page; a result joins the call with its id, wherever it stands."""
    calls = [_calls(one) for one in messages]
    known = {call["id"] for found in calls for call in found if call["id"]}
    results: dict[str, list[Mapping[str, Any]]] = {}
    for one in messages:
        if _who(one) == "tool" and one.get("tool_call_id") in known:
            results.setdefault(one["tool_call_id"], []).append(one)
    room = [IMAGES_MAX]
    for at, one in enumerate(messages):
        who = _who(one) or "other"
        if who == "tool" and one.get("tool_call_id") in results:
            continue
        name = str(one.get("name") or one.get("role") or who)
        yield Said(
            str(one.get("id") or ""),
            who,
            _WHO.get(name, name),
            _body(one.get("content", one.get("parts")), room),
            tuple(_call(call, results.get(call["id"], []), room) for call in calls[at]),
            _time(one),
            first + at,
        )


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message's calls in one form: `id`, `name`, `args`."""
    found = [*_maps(message.get("tool_calls")), *_maps(message.get("invalid_tool_calls"))]
    if not found:
        more = message.get("additional_kwargs")
        found = _maps(more.get("tool_calls")) if isinstance(more, Mapping) else []
    if not found:
        found = [one for one in _maps(message.get("content")) if one.get("type") == "tool_use"]
    made: list[dict[str, Any]] = []
    for one in found:
        function = one.get("function")
        inner = cast("Mapping[str, Any]", function) if isinstance(function, Mapping) else one
        args = inner.get("args", inner.get("arguments", inner.get("input", {})))
        name = str(inner.get("name") or "a tool")
        made.append({"id": str(one.get("id") or ""), "name": name, "args": _parsed(args)})
    return made


def _parsed(args: Any) -> Any:
    try:
        return json.loads(args) if isinstance(args, str) else args
    except (ValueError, RecursionError):
        return args


def _call(call: dict[str, Any], results: list[Mapping[str, Any]], room: list[int]) -> Call:
    failed = any(one.get("status") == "error" for one in results)
    return Call(
        call["id"],
        call["name"],
        shown(call["args"]),
        tuple(_body(one.get("content"), room) for one in results),
        "error" if failed else "done" if results else "waiting",
    )


def _time(message: Mapping[str, Any]) -> Moment | None:
    places = (message, message.get("additional_kwargs"), message.get("response_metadata"))
    for place in places:
        for name in _TIMES if isinstance(place, Mapping) else ():
            said = cast("Mapping[str, Any]", place).get(name)
            try:
                if isinstance(said, str) and said:
                    return moment(said)
                if isinstance(said, int | float) and 1e9 < said < 4e9:  # seconds, as models say
                    return moment(int(said * 1e6))
            except (ValueError, OverflowError):
                continue
    return None


def _body(content: Any, room: list[int]) -> Markup:
    if isinstance(content, str):
        return _text(content)
    if isinstance(content, list):
        return Markup().join(_part(one, room) for one in cast("list[Any]", content))
    return Markup() if content is None else _other(content)


def _text(text: str) -> Markup:
    if text[:1] in "{[" and text.strip():
        try:
            return _other(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return marked_up(text) if text.strip() else Markup()


def _other(data: Any) -> Markup:
    found = shown(data)
    cut = f"\n... {found.cut} more characters" if found.cut else ""
    return Markup('<pre tabindex="0">{}{}</pre>').format(found.text, cut)


def _part(given: Any, room: list[int]) -> Markup:
    """Show one part of a content: text, an image, or what it is as JSON."""
    if isinstance(given, str):
        return _text(given)
    if not isinstance(given, Mapping):
        return _other(given)
    part = cast("Mapping[str, Any]", given)
    kind = part.get("type")
    if kind in ("tool_use", "tool_call"):
        return Markup()  # shown with the calls
    if isinstance(part.get("text"), str) and kind in ("text", "input_text", "output_text", None):
        return _text(part["text"])
    thought = part.get("thinking", part.get("reasoning"))
    if isinstance(thought, str) and kind in ("thinking", "reasoning"):
        return Markup("<details><summary>Thoughts</summary>{}</details>").format(_text(thought))
    if kind in ("image", "image_url", "input_image"):
        return _image(part, room)
    return _other(_without_bytes(part))


def _image(part: Mapping[str, Any], room: list[int]) -> Markup:
    """Show an image that the message contains; another one is a link, and never loaded."""
    address = _image_address(part)
    if address.startswith("data:"):
        head, _, body = address[5:].partition(",")
        fits = len(address) <= min(IMAGE_MAX, room[0])
        if head.removesuffix(";base64").lower() in _IMAGES and head.endswith(";base64") and fits:
            room[0] -= len(address)
            return Markup('<img class="said" alt="image in the message" src="{}">').format(address)
        text = f"image, {len(body)} characters, not shown"
        return Markup('<p class="soft">[{}]</p>').format(text)
    if address:
        return Markup('<p class="soft">[image: {}]</p>').format(link(address, address))
    return _other(_without_bytes(part))


def _image_address(part: Mapping[str, Any]) -> str:
    """Return the address of an image in any of the forms that models take; "" if there is none."""
    source = part.get("source")
    found = cast("Mapping[str, Any]", source) if isinstance(source, Mapping) else part
    kind = found.get("media_type") or found.get("mime_type") or "image/png"
    for name in ("data", "base64"):
        if isinstance(found.get(name), str) and found[name]:
            return f"data:{kind};base64,{found[name]}"
    said = part.get("image_url", found.get("url"))
    if isinstance(said, Mapping):
        said = cast("Mapping[str, Any]", said).get("url")
    return said if isinstance(said, str) else ""


def _without_bytes(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part with its long texts cut: they are files."""
    return {
        name: f"[{len(value)} characters]"
        if isinstance(value, str) and len(value) > 2_000
        else value
        for name, value in part.items()
    }


def _maps(given: Any) -> list[Mapping[str, Any]]:
    if not isinstance(given, list):
        return []
    return [one for one in cast("list[Any]", given) if isinstance(one, Mapping)]

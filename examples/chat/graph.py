"""The agent of the chat: it answers word by word, and asks before it books a room.

It needs no language model, no network and no key: `answer` streams a text of its own at the pace
of a model. With a real model, call it there and send what it streams in the same way.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict
from uuid import uuid4

import anyio

from actorgraph import START, StateGraph, add_messages, interrupt
from actorgraph.messages import AIMessage, AIMessageChunk, BaseMessage
from actorgraph.streams import get_message_writer

ANSWER = """You wrote: “{text}”

This answer is streamed word by word, as a model would stream it. While it is being written you can

• close this page and open it again: the answer goes on,
• stop it with the button, or with the Escape key,
• kill the server with kill -9 and start it again: this page reconnects by itself.

What the killed server had written of an unfinished answer is dropped, and the answer is written \
anew, because the process that would have ended it is gone. Nothing is doubled, and nothing is lost.

Write “book a room” to be asked something, by a form."""


class Chat(TypedDict):
    """The messages of a conversation."""

    messages: Annotated[list[BaseMessage], add_messages]


@dataclass
class Booking:
    """What a person decides about a room."""

    room: Literal["single", "double", "suite"]
    nights: int
    breakfast: bool = True
    note: str = ""


def make_graph(word_s: float) -> StateGraph[Any, Any, Any, Any]:
    """Return the graph of a conversation.

    Args:
        word_s: seconds between two words.
    """

    async def answer(chat: Chat) -> dict[str, Any]:
        """Answer the last message."""
        return {"messages": [await _say(ANSWER.format(text=chat["messages"][-1].text), word_s)]}

    async def book(_: Chat) -> dict[str, Any]:
        """Ask which room, and say what was booked."""
        wish = interrupt("Which room may I book?", response_schema=Booking)
        nights = "1 night" if wish.nights == 1 else f"{wish.nights} nights"
        breakfast = "with breakfast" if wish.breakfast else "without breakfast"
        note = f" Your note: {wish.note}" if wish.note else ""
        text = f"Done: a {wish.room} room for {nights}, {breakfast}.{note}"
        return {"messages": [await _say(text, word_s)]}

    def route(chat: Chat) -> Literal["answer", "book"]:
        return "book" if "book" in chat["messages"][-1].text.lower() else "answer"

    builder = StateGraph(Chat).add_node("answer", answer).add_node("book", book)
    return builder.add_conditional_edges(START, route)


async def _say(text: str, word_s: float) -> AIMessage:
    """Stream a text, and return it as one message with the id of its pieces.

    An attempt that begins anew has another id: clients join pieces of one id, and drop those of
    an attempt that its process didn't survive.
    """
    write, name = get_message_writer(), str(uuid4())
    async for word in _words(text, word_s):
        await write.asend(AIMessageChunk(word, id=name))
    return AIMessage(text, id=name)


async def _words(text: str, word_s: float) -> AsyncIterator[str]:
    """Cut a text as models do, and take time for each word."""
    for number, word in enumerate(text.split(" ")):
        await anyio.sleep(word_s)
        yield f" {word}" if number else word

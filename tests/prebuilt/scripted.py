"""A chat model that says what a test has written down, and what goes with it."""

import msgspec

from actorgraph.messages import AIMessage


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def calling(*calls, id=None):
    made = [{"name": n, "args": a, "id": f"{n}{i}"} for i, (n, a) in enumerate(calls)]
    return AIMessage("", tool_calls=made, id=id)


class Script:
    """A chat model that says what is written down, and remembers what it was given."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.given = []
        self.tools = []

    def bind_tools(self, tools):
        self.tools = tools
        return self

    async def ainvoke(self, messages, config):
        self.given.append(messages)
        return self.answers.pop(0)


def texts(state):
    return [m.content for m in state["messages"]]


ASKED = {"messages": [("user", "2 x 4?")]}


class Answer(msgspec.Struct):
    number: int

"""A tool agent that streams: its tool calls, their results, and the answer word by word.

    python examples/agents/tool_agent.py ["How is the weather in Rome?"]

Runs offline, with a fake model; with OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL set, with
that model.
"""

import sys
from typing import Any

import anyio
from fake_model import chat_model

from actorgraph.prebuilt import create_react_agent

WEATHER = {"rome": "sunny, 31 °C", "oslo": "snow, -4 °C"}


def weather(city: str) -> str:
    """The weather in a city."""
    return WEATHER.get(city.lower(), "unknown")


def celsius_to_fahrenheit(degrees: float) -> float:
    """Convert a temperature."""
    return degrees * 9 / 5 + 32


def rule(messages: list[dict[str, Any]]) -> Any:
    """Play a model that asks for the weather in the cities of the question."""
    if messages[-1]["role"] == "tool":
        results = [m["content"] for m in messages if m["role"] == "tool"]
        return f"It is {' and '.join(results)}."
    cities = [city for city in WEATHER if city in messages[-1]["content"].lower()]
    return [("weather", {"city": city.title()}) for city in cities] or "Ask me about Rome or Oslo."


async def main(question: str) -> str:
    """Ask one question, print what happens, and return the answer."""
    answer = ""
    # The first request fails with 429: the model waits as the server asks, and tries again.
    with chat_model(rule, faults=["429"], retry_after_s=0.5) as model:
        agent = create_react_agent(model, [weather, celsius_to_fahrenheit])
        given = {"messages": [("user", question)]}
        async for mode, chunk in agent.astream(given, stream_mode=["messages", "updates"]):
            if mode == "messages":
                message, _ = chunk
                if message.type != "tool":
                    print(message.content, end="", flush=True)
                    answer += message.content
            elif "tools" in chunk:
                for message in chunk["tools"]["messages"]:
                    print(f"  [{message.name}: {message.content}]")
    print()
    return answer


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "How is the weather in Rome and Oslo?")

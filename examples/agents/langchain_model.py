"""LangChain's ChatOpenAI as the model of an agent, if `langchain-openai` is installed.

    pip install langchain-openai
    python examples/agents/langchain_model.py

Offline, or with the model of OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL. Its tokens stream
like those of `ChatCompletions`.
"""

import os
from typing import Any

import anyio
from fake_model import FakeModel

from actorgraph.prebuilt import create_react_agent


def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def rule(messages: list[dict[str, Any]]) -> Any:
    """Play a model that counts the words of what it was asked."""
    if messages[-1]["role"] == "tool":
        return f"That has {messages[-1]['content']} words."
    return [("word_count", {"text": messages[-1]["content"]})]


async def ask(model: Any) -> str:
    """Ask one question, and print the answer as it arrives."""
    agent, answer = create_react_agent(model, [word_count]), ""
    given = {"messages": [("user", "Count the words of this sentence")]}
    async for message, _ in agent.astream(given, stream_mode="messages"):
        if message.type != "tool":
            print(message.content, end="", flush=True)
            answer += str(message.content)
    print()
    return answer


async def main() -> str:
    """Ask the model that the environment names, or a fake one."""
    try:
        from langchain_openai import ChatOpenAI
    except ImportError:
        print("needs: pip install langchain-openai")
        return ""
    if os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"):
        return await ask(ChatOpenAI(model=os.environ["OPENAI_MODEL"]))
    with FakeModel(rule) as fake:
        return await ask(ChatOpenAI(model="fake", base_url=fake.url, api_key=lambda: "none"))


if __name__ == "__main__":
    anyio.run(main)

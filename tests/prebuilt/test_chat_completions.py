"""ChatCompletions against a server on this machine that streams, calls tools and fails."""

import copy
import json
import logging

import anyio
import httpx
import pytest

from actorgraph import START, ActorSystem, MessagesState, RetryPolicy, StateGraph
from actorgraph.errors import GraphBuildError, ModelError, ModelUnavailableError
from actorgraph.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from actorgraph.prebuilt import ChatCompletions, ToolRuntime, chat_completions, create_react_agent
from actorgraph.prebuilt.completion_format import CompletionParts, message_json, tool_json
from actorgraph.prebuilt.completion_requests import EventLines
from agents.fake_model import FakeModel

KEY = "sk-secret-0123456789"
ASKED = {"messages": [HumanMessage("How is Rome?")]}


def weather(city: str, runtime: ToolRuntime) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def forecast(messages):
    """Call the tool, then say what it said."""
    if messages[-1]["role"] == "tool":
        return f"It is {messages[-1]['content']} today"
    return [("weather", {"city": "Rome"})]


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Attempts follow each other at once, unless a server asks for a wait."""
    monkeypatch.setattr(chat_completions, "FIRST_WAIT_S", 0.001)
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def server():
    """One server for all tests; each sets its rule and its faults."""
    with FakeModel(forecast) as fake:
        yield fake


@pytest.fixture
def fake(server):
    server.rule, server.faults, server.requests, server.keys = forecast, [], [], []
    server.retry_after_s = 0
    return server


def model_at(fake, **options):
    return ChatCompletions("small", base_url=fake.url, api_key=KEY, **options)


class TestAgent:
    async def test_it_calls_tools_until_it_has_an_answer(self, fake):
        """
        An agent gets its tool calls and its answer from the server, and sends the results back.
        """
        agent = create_react_agent(model_at(fake, temperature=0), [weather], prompt="Be brief.")

        state = await agent.ainvoke(ASKED)

        assert state["messages"][-1].content == "It is sunny in Rome today"
        assert state["messages"][-1].usage_metadata["output_tokens"] == 5
        first, second = fake.requests
        assert first["temperature"] == 0
        assert first["messages"][0] == {"role": "system", "content": "Be brief."}
        assert first["tools"][0]["function"]["parameters"]["properties"].keys() == {"city"}
        called, answered = second["messages"][-2:]
        assert called["tool_calls"][0]["function"]["arguments"] == '{"city":"Rome"}'
        assert answered["tool_call_id"] == called["tool_calls"][0]["id"]
        assert fake.keys == [KEY, KEY]

    async def test_text_is_streamed_as_it_arrives(self, fake):
        """
        Readers of "messages" get the words one by one; added up they are the stored message.
        """
        agent = create_react_agent(model_at(fake), [weather])

        seen = [m async for m, _ in agent.astream(ASKED, stream_mode="messages")]
        words = [m for m in seen if m.type == "AIMessageChunk"]

        assert [m.content for m in words] == ["It", " is", " sunny", " in", " Rome", " today", ""]
        whole = sum(words[1:], start=words[0]).whole()
        assert whole.response_metadata["finish_reason"] == "stop"
        assert whole.usage_metadata["total_tokens"] == whole.usage_metadata["input_tokens"] + 5
        assert [m.type for m in seen[:2]] == ["ai", "tool"]

    async def test_an_answer_that_comes_at_once_is_read_as_it_is_passed_on(self):
        """
        Two thousand pieces that come in one part reach a reader that doesn't block, without a gap.
        """
        said = [{"choices": [{"delta": {"content": f"{n} "}}]} for n in range(2000)]
        said.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in said)
        headers = {"content-type": "text/event-stream"}
        client = httpx.AsyncClient(
            transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, text=body))
        )
        model = ChatCompletions("small", base_url="http://x", client=client)

        async def answer(state: MessagesState) -> dict:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
        async with client, ActorSystem({"chat": builder.compile()}) as system:
            run = await system.start("chat", "one", ASKED, stream_mode="messages")
            events = [event async for event in run.events()]

        texts = [e.data[0].content for e in events if e.kind == "messages"]
        assert "gap" not in {event.kind for event in events}
        assert texts[:2000] == [f"{n} " for n in range(2000)]

    def test_a_blocking_call_works_too(self, fake):
        """
        `invoke` of an agent reaches the server, without an event loop of the program.
        """
        state = create_react_agent(model_at(fake), [weather]).invoke(ASKED)

        assert state["messages"][-1].content == "It is sunny in Rome today"


class TestFailures:
    @pytest.mark.parametrize("fault", ["429", "500", "broken", "early", "error"])
    async def test_a_transient_one_is_tried_again(self, fake, fault):
        """
        Before any text has been sent on, another attempt is made, and the answer is whole.
        """
        fake.faults = [fault, fault]

        message = await model_at(fake).bind_tools([weather]).ainvoke("How is Rome?")

        assert message.tool_calls[0]["args"] == {"city": "Rome"}
        assert len(fake.requests) == 3

    async def test_retry_after_is_waited_for(self, fake, monkeypatch):
        """
        The next attempt comes no earlier than the server asks, if that is at most a minute.
        """
        waits = []

        async def sleep(seconds):
            waits.append(seconds)

        monkeypatch.setattr(anyio, "sleep", sleep)
        fake.faults, fake.retry_after_s = ["429"], 30
        await model_at(fake).ainvoke("How is Rome?")
        fake.faults, fake.retry_after_s = ["429"], 90
        with pytest.raises(ModelUnavailableError) as raised:
            await model_at(fake).ainvoke("How is Rome?")

        assert waits == [30]
        assert raised.value.status_code == 429
        assert raised.value.headers["retry-after"] == "90"

    async def test_one_in_the_middle_of_a_text_is_raised(self, fake):
        """
        Readers have seen a part: the attempt fails with the address, and the node's policy decides.
        """
        fake.rule, fake.faults = lambda _: "one two three", ["broken"]
        model = model_at(fake)

        with pytest.raises(ModelUnavailableError) as raised:
            await model.ainvoke("Count.")

        assert f"model 'small' at {fake.url}: RemoteProtocolError" in str(raised.value)
        assert len(fake.requests) == 1

    async def test_a_nodes_policy_tries_it_again(self, fake):
        """
        With a `retry_policy` the node is called again, and its second answer is the one stored.
        """
        fake.rule, fake.faults = lambda _: "one two three", ["early"]
        model = model_at(fake, attempts_max=1)

        async def count(state: MessagesState):
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        policy = RetryPolicy(initial_interval=0.001, jitter=False)
        graph = builder.add_node(count, retry_policy=policy).add_edge(START, "count").compile()
        state = await graph.ainvoke({"messages": [HumanMessage("Count.")]})

        assert [m.content for m in state["messages"]] == ["Count.", "one two three"]

    async def test_a_refusal_is_not_tried_again(self, fake):
        """
        401 is raised at once, with the status, the server's words and advice.
        """
        fake.faults = ["401"]

        with pytest.raises(ModelError, match="HTTP 401 Unauthorized: the key is wrong") as raised:
            await model_at(fake).ainvoke("Hello")

        assert (raised.value.status_code, len(fake.requests)) == (401, 1)
        assert not isinstance(raised.value, ModelUnavailableError)
        assert "OPENAI_API_KEY" in raised.value.do
        assert copy.copy(raised.value).status_code == 401

    async def test_silence_ends(self):
        """
        A server that sends nothing for `timeout_s` is unavailable.
        """
        with FakeModel(forecast, ["slow"]) as slow:
            model = ChatCompletions("small", base_url=slow.url, timeout_s=0.05, attempts_max=1)
            with pytest.raises(ModelUnavailableError, match="ReadTimeout"):
                await model.ainvoke("Hello")
            slow.closing.set()

    async def test_an_address_without_a_server_is_named(self):
        """
        A refused connection is an error with the address.
        """
        with FakeModel(forecast) as gone:
            pass
        model = ChatCompletions("small", base_url=gone.url, attempts_max=2)

        with pytest.raises(ModelUnavailableError, match=f"at {gone.url}: ConnectError"):
            await model.ainvoke("Hello")

    async def test_a_cancelled_call_closes_its_connection(self, fake):
        """
        A reader that leaves in the middle of a text leaves nothing open.
        """
        fake.rule = lambda _: "one two three"
        agent = create_react_agent(model_at(fake), [])

        async for _ in agent.astream(ASKED, stream_mode="messages"):
            break

        fake.rule = forecast
        assert (await agent.ainvoke(ASKED))["messages"][-1].tool_calls != []


class TestSecrets:
    async def test_the_key_is_in_no_text(self, fake, caplog):
        """
        Neither reprs nor errors nor logs show the key.
        """
        model = model_at(fake)
        fake.faults = ["401"]

        with caplog.at_level(logging.DEBUG), pytest.raises(ModelError) as raised:
            await model.bind_tools([weather]).ainvoke("Hello")

        texts = [repr(model), repr(vars(model)), str(raised.value), raised.value.do, caplog.text]
        assert not [text for text in texts if KEY in text]
        assert "chat/completions" in caplog.text
        assert repr(model) == f"<ChatCompletions 'small' at {fake.url}>"

    def test_a_password_in_the_address_is_refused(self):
        """
        HTTP clients log addresses: one with a password is refused, without showing it.
        """
        with pytest.raises(GraphBuildError, match=r"got 'models\.test/v1'") as raised:
            ChatCompletions("m", base_url="https://ann:hunter2@models.test/v1")

        assert "hunter2" not in str(raised.value)

    async def test_a_key_that_the_server_repeats_is_left_out(self, fake):
        """
        A server's own words are shown without the key.
        """
        fake.faults = ["401"]
        with pytest.raises(ModelError, match=r"the key is \[redacted\]"):
            await ChatCompletions("m", base_url=fake.url, api_key="wrong").ainvoke("Hello")

    @pytest.mark.parametrize("key", ["sk-\x07secret", "sk-sécret", "sk-one\nsk-two"])
    def test_a_key_that_no_header_can_have_is_refused(self, key):
        """
        The error says so without showing the key.
        """
        with pytest.raises(GraphBuildError, match="api_key has characters") as refused:
            ChatCompletions("small", api_key=key)

        assert "sk-" not in str(refused.value)

    async def test_white_space_around_a_key_is_left_out(self, fake):
        """
        A key that was read from a file, with its line feed, is sent without it.
        """
        await ChatCompletions("small", base_url=fake.url, api_key=f"{KEY}\n").ainvoke("Hello")

        assert fake.keys == [KEY]


class TestEventLines:
    @pytest.mark.parametrize("size", [1, 2, 3, 1000])
    def test_lines_end_as_the_standard_says(self, size):
        """
        CR, LF and CRLF end a line wherever the bytes are cut; U+2028, U+0085 and a BOM do not.
        """
        told = '\ufeffdata: {"a": "b\u2028c\x85d"}\r\n\r\ndata: 2\rdata:3\n: ping\ndata: [DONE]\n'
        sent, lines = told.encode(), EventLines()
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]

        found = [data for piece in (*pieces, b"\n") for data in lines.data(piece)]

        assert found == ['{"a": "b\u2028c\x85d"}'.encode(), b"2", b"3"]

    @pytest.mark.parametrize("answer", ['{"choices": "zz"}', '{"choices": [3]}', '{"usage": 4}'])
    async def test_an_answer_of_another_form_is_refused(self, answer):
        """
        A server that answers something else is named in an error of the library.
        """
        client = httpx.AsyncClient(
            transport=httpx.MockTransport(lambda _: httpx.Response(200, text=answer))
        )
        async with client:
            model = ChatCompletions("small", base_url="http://x", client=client, attempts_max=1)
            with pytest.raises(ModelUnavailableError, match="isn't of the protocol"):
                await model.ainvoke("Hello")


class TestSettings:
    async def test_the_environment_names_model_address_and_key(self, fake, monkeypatch):
        """
        OPENAI_MODEL, OPENAI_BASE_URL and OPENAI_API_KEY are the defaults.
        """
        for name, value in (("MODEL", "large"), ("BASE_URL", f"{fake.url}/"), ("API_KEY", "k")):
            monkeypatch.setenv(f"OPENAI_{name}", value)

        await ChatCompletions().ainvoke([HumanMessage("Hello")])

        assert (fake.requests[0]["model"], fake.keys) == ("large", ["k"])

    async def test_a_server_that_does_not_stream_is_read(self, fake):
        """
        An answer in one piece is the same message.
        """
        message = await model_at(fake, stream=False).ainvoke("Hello")

        assert message.tool_calls[0]["args"] == {"city": "Rome"}
        assert message.usage_metadata["input_tokens"] == 1

    async def test_a_client_of_the_program_is_used_and_left_open(self, fake):
        """
        `client=` is the program's: two calls go through it, and it stays open.
        """
        import httpx

        async with httpx.AsyncClient(headers={"x-team": "blue"}) as client:
            model = model_at(fake, client=client)
            await model.ainvoke("Hello")
            await model.ainvoke("Hello")
            assert not client.is_closed

        assert len(fake.requests) == 2

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({}, "name of a model"),
            ({"model": "m", "base_url": "localhost:80"}, "'localhost:80'"),
            ({"model": "m", "attempts_max": 0}, "got 0"),
            ({"model": "m", "timeout_s": float("inf")}, "inf"),
        ],
    )
    def test_a_bad_one_is_refused(self, options, what):
        """
        A setting that can't work is refused when the model is made.
        """
        with pytest.raises(GraphBuildError, match=what):
            ChatCompletions(**options)


class TestFormat:
    def test_messages_have_their_roles(self):
        """
        System, human, model and tool messages become the roles of the protocol.
        """
        call = {"name": "f", "args": {"x": 1}, "id": "c"}
        told = [
            SystemMessage("s"),
            HumanMessage("h", name="ann"),
            AIMessage("", tool_calls=[call]),
            ToolMessage("t", tool_call_id="c"),
        ]

        assert [message_json(m) for m in told] == [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "h", "name": "ann"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"x":1}'},
                    }
                ],
            },
            {"role": "tool", "content": "t", "tool_call_id": "c"},
        ]

    def test_tools_of_langchain_and_dicts_are_offered(self):
        """
        A LangChain tool has its own schema; a dict is sent as it is.
        """
        from langchain_core.tools import tool

        @tool
        def double(number: int) -> int:
            """Twice a number."""
            return 2 * number

        described = tool_json(double)["function"]

        assert (described["name"], described["description"]) == ("double", "Twice a number.")
        assert described["parameters"]["properties"]["number"]["type"] == "integer"
        assert tool_json({"type": "web_search"}) == {"type": "web_search"}

    def test_arguments_that_are_not_json_name_the_tool(self):
        """
        Half of a JSON object is an error that names the tool.
        """
        parts = CompletionParts()
        function = {"name": "weather", "arguments": '{"city": "Ro'}
        delta = {"tool_calls": [{"index": 0, "id": "1", "function": function}]}
        parts.add({"choices": [{"delta": delta}]})

        with pytest.raises(ValueError, match="called tool 'weather' with arguments"):
            parts.fields()

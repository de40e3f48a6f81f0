"""Mistakes in building graphs and in what nodes return; see `mistakes.py`."""

from typing import Annotated, TypedDict

from actorgraph import END, START, Command, InMemorySaver, Send, StateGraph, entrypoint
from tests.errors.mistakes import State, chain, mistake, write


@mistake(
    "NotCompiledError: a StateGraph has no 'invoke': it only declares a graph\n"
    "  Do this: compile it first: graph = builder.compile(), then graph.invoke"
)
def forgot_compile():
    chain(a=write).invoke({"text": ""})


@mistake(
    "SchemaError: Expected a state schema, got {'text': <class 'str'>}, which is a value and "
    "not a type\n"
    "  Do this: pass a TypedDict, dataclass, pydantic model, msgspec.Struct or attrs class"
)
def schema_is_a_value():
    StateGraph({"text": str})


@mistake(
    "TypeError: StateGraph.__init__() missing 1 required positional argument: 'state_schema'",
    of_python=True,
)
def schema_is_missing():
    StateGraph()


@mistake(
    "GraphBuildError: Graph must have an entrypoint: add at least one edge from START to "
    "another node\n"
    "  Do this: add_edge(START, name)"
)
def no_start_edge():
    builder = StateGraph(State)
    builder.add_node("a", write)
    builder.add_edge("a", END)
    builder.compile()


@mistake(
    "GraphBuildError: Found edge starting at unknown node 'draft'\n"
    "  Do this: add the node; no name of that kind is defined"
)
def edges_and_no_nodes():
    StateGraph(State).add_edge("draft", END).compile()


@mistake(
    "UnknownTargetError: router 'route' of node '__start__' goes to 'draft', which is not a node "
    "of graph 'LangGraph'\n"
    "  Do this: add it, or go to END"
)
def routes_and_no_nodes():
    def route(state):
        return "draft"

    StateGraph(State).add_conditional_edges(START, route).compile().invoke({})


@mistake(
    "GraphBuildError: Found edge ending at unknown node `reveiw`\n"
    "  Do this: add the node; the choices are 'draft'"
)
def edge_to_an_unknown_node():
    builder = chain(draft=write)
    builder.add_edge("draft", "reveiw")
    builder.compile()


@mistake(
    "GraphBuildError: Found edge starting at unknown node 'draf'\n"
    "  Do this: add the node; did you mean 'draft'?"
)
def edge_from_an_unknown_node():
    builder = chain(draft=write)
    builder.add_edge("draf", "draft")
    builder.compile()


@mistake("GraphBuildError: END cannot be a start node\n  Do this: end the edge at END instead")
def edge_from_end():
    chain(a=write).add_edge(END, "a")


@mistake("GraphBuildError: START cannot be an end node\n  Do this: name the node to go back to")
def edge_to_start():
    chain(a=write).add_edge("a", START)


@mistake(
    "GraphBuildError: add_edge() expects the name of a node, got <function write>\n"
    "  Do this: pass the name that the node has in the graph, such as 'write'"
)
def edge_names_a_function():
    chain(write=write).add_edge(START, write)


@mistake(
    "GraphBuildError: add_edge() expects the name of a node, got ['a', 'b']\n"
    "  Do this: add one edge for each of these nodes"
)
def edge_to_several_nodes():
    chain(a=write, b=write).add_edge(START, ["a", "b"])


@mistake("GraphBuildError: Node `a` already present.\n  Do this: choose another name")
def two_nodes_of_one_name():
    chain(a=write).add_node("a", write)


@mistake("GraphBuildError: Node `__end__` is reserved.\n  Do this: choose another name")
def node_of_a_reserved_name():
    StateGraph(State).add_node(END, write)


@mistake(
    "GraphBuildError: 'a:b' can't be a node's name: it has ':', which separates the names of "
    "nested graphs\n"
    "  Do this: use letters, digits, '-' and '_'"
)
def node_name_with_a_colon():
    StateGraph(State).add_node("a:b", write)


@mistake(
    "GraphBuildError: node 'a': expected a function, got 'write'\n"
    "  Do this: pass a function, or an object with `ainvoke` or `invoke`"
)
def node_is_text():
    StateGraph(State).add_node("a", "write")


@mistake(
    "GraphBuildError: node 'a': expected a function, got the dict {'text': 'hi'}\n"
    "  Do this: pass the function itself, not its result; for LangChain's RunnableParallel, "
    "import langchain_core.runnables first"
)
def node_is_a_result():
    StateGraph(State).add_node("a", write({}))


@mistake(
    "GraphBuildError: add_node() got no name for the node\n"
    "  Do this: pass it first: add_node(name, function)"
)
def node_without_a_name():
    StateGraph(State).add_node(lambda state: {})


@mistake(
    "GraphBuildError: add_node('a') got no function\n  Do this: pass it: add_node(name, function)"
)
def node_without_a_function():
    StateGraph(State).add_node("a")


@mistake(
    "TypeError: StateGraph.add_node() got an unexpected keyword argument 'defered'", of_python=True
)
def option_of_add_node_misspelt():
    StateGraph(State).add_node("a", write, defered=True)


@mistake(
    "GraphBuildError: node 'a': retry_policy must be a RetryPolicy or a list of them, got 3\n"
    "  Do this: pass a RetryPolicy, or a list of them: the first that matches an error counts"
)
def retry_policy_is_a_number():
    StateGraph(State).add_node("a", write, retry_policy=3)


@mistake(
    "GraphBuildError: node 'a' is a sync function and has a timeout, but a thread can't be "
    "stopped\n"
    "  Do this: make it `async def`, or set a timeout on the I/O inside it"
)
def timeout_of_a_plain_function():
    StateGraph(State).add_node("a", write, timeout=3)


@mistake(
    "GraphBuildError: Found conditional edge of 'a' ending at unknown node `b`\n"
    "  Do this: add the node; the choices are 'a'"
)
def router_map_names_an_unknown_node():
    builder = chain(a=write)
    builder.add_conditional_edges("a", lambda state: "yes", {"yes": "b"})
    builder.compile()


@mistake(
    "GraphBuildError: the path behind node 'a': expected a function, got 'b'\n"
    "  Do this: pass a function, or an object with `ainvoke` or `invoke`"
)
def router_is_a_name():
    chain(a=write).add_conditional_edges("a", "b")


@mistake(
    "SchemaError: Invalid reducer signature. Expected (a, b) -> c for key 'log', got "
    "'<lambda>'\n"
    "  Do this: use a function of exactly two positional arguments: the value and one write"
)
def reducer_takes_one_argument():
    class Wrong(TypedDict):
        log: Annotated[list, lambda old: old]

    StateGraph(Wrong)


@mistake("GraphBuildError: Interrupt node `b` not found\n  Do this: the choices are 'a'")
def pauses_before_an_unknown_node():
    chain(a=write).compile(InMemorySaver(), interrupt_before=["b"])


@mistake(
    "GraphBuildError: @entrypoint has no parentheses at 'flow'\n"
    "  Do this: write @entrypoint(), or @entrypoint(checkpointer=saver)"
)
def entrypoint_without_parentheses():
    @entrypoint
    def flow(given):
        return given


@mistake(
    "GraphBuildError: Invalid checkpointer provided: expected a saver, got the class "
    "InMemorySaver\n"
    "  Do this: pass a saver object, such as SqliteSaver('runs.db'), not its class or context"
)
def saver_is_a_class():
    chain(a=write).compile(InMemorySaver)


@mistake(
    "GraphBuildError: Invalid checkpointer provided: expected a saver, got 'runs.db'\n"
    "  Do this: pass a saver object, such as SqliteSaver('runs.db'), not its class or context"
)
def saver_is_a_path():
    chain(a=write).compile("runs.db")


@mistake(
    "GraphBuildError: Invalid store provided: {} must be an object with `batch` and `abatch`\n"
    "  Do this: pass a store object, such as InMemoryStore(), not its class or context"
)
def store_is_a_dict():
    chain(a=write).compile(store={})


@mistake(
    "InvalidUpdateError: Expected dict, got ['x'] from node 'a'\n"
    "  Do this: return a dict of state keys, a Command, a Send, a list of these, or None"
)
def node_returns_a_list():
    chain(a=lambda state: ["x"]).compile().invoke({})


@mistake(
    "InvalidUpdateError: Expected dict, got 'x' from node 'a'\n"
    "  Do this: return a dict of state keys, a Command, a Send, a list of these, or None"
)
def node_returns_text():
    chain(a=lambda state: "x").compile().invoke({})


@mistake(
    "UnknownChannelWarning: node 'a' returned 'txet', which is not a channel of this graph "
    "(did you mean 'text'?)\n"
    "  Do this: give only known keys, or add the key to the state schema; compile(strict=True) "
    "makes this an error"
)
def node_returns_an_unknown_key():
    chain(a=lambda state: {"txet": "x"}).compile().invoke({})


@mistake(
    "InvalidUpdateError: node 'a' returned 'txet', which is not a channel of this graph (did "
    "you mean 'text'?)\n"
    "  Do this: give only known keys, or leave strict=True out"
)
def node_returns_an_unknown_key_of_a_strict_graph():
    chain(a=lambda state: {"txet": "x"}).compile(strict=True).invoke({})


@mistake(
    "KeyError: 'text'\n"
    "The state has no 'text' yet: no input and no node has given it a value.\n"
    "  Do this: pass it in the input, let a node before 'a' return it, or read it with "
    "state.get('text')"
)
def node_reads_a_key_without_a_value():
    chain(a=lambda state: {"text": state["text"]}).compile().invoke({})


@mistake(
    "TypeError: node_takes_no_state.<locals>.<lambda>() takes 0 positional arguments but 1 was "
    "given",
    of_python=True,
)
def node_takes_no_state():
    chain(a=lambda: {"text": "x"}).compile().invoke({})


@mistake(
    "InvalidUpdateError: At key 'text': can receive only one value per step, got 2\n"
    "  Do this: give 'text' a reducer that combines them, e.g. Annotated[list, operator.add], "
    "or let one node own it\n"
    "while folding the writes of a, b into 'text'"
)
def nodes_write_one_key():
    builder = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, write)
        builder.add_edge(START, name)
    builder.compile().invoke({})


@mistake(
    'TypeError: can only concatenate list (not "str") to list\n'
    "while folding the writes of a into 'log'\n"
    "return a list of items to append: {'log': [...]}",
    of_python=True,
)
def reducer_gets_another_type():
    chain(a=lambda state: {"log": "x"}).compile().invoke({"log": []})


@mistake(
    "UnknownTargetError: router 'route' of node 'draft' goes to 'reveiw', which is not a node "
    "of graph 'LangGraph'\n"
    "  Do this: did you mean 'review'?"
)
def router_returns_an_unknown_name():
    def route(state):
        return "reveiw"

    builder = chain(draft=write, review=write)
    builder.add_conditional_edges("draft", route)
    builder.compile().invoke({})


@mistake(
    "UnknownTargetError: router 'route' of node 'a' did not return a valid destination: None\n"
    "  Do this: return a node's name, END, a Send, or a list of these"
)
def router_returns_none():
    def route(state):
        return None

    builder = chain(a=write)
    builder.add_conditional_edges("a", route)
    builder.compile().invoke({})


@mistake(
    "UnknownTargetError: router 'route' of node 'a' returned 'no', which is not in its path "
    "map\n"
    "  Do this: the choices are 'yes'"
)
def router_returns_what_its_map_misses():
    def route(state):
        return "no"

    builder = chain(a=write, b=write)
    builder.add_conditional_edges("a", route, {"yes": "b"})
    builder.compile().invoke({})


@mistake(
    "UnknownTargetError: node 'a' goes to 'b', which is not a node of graph 'LangGraph'\n"
    "  Do this: the choices are 'a', END"
)
def command_goes_to_an_unknown_node():
    chain(a=lambda state: Command(goto="b")).compile().invoke({})


@mistake(
    "InvalidUpdateError: node 'a' returned a Command with graph=Command.PARENT, but its graph "
    "is not the subgraph of another one\n"
    "  Do this: leave graph= out; graph=Command.PARENT is for nodes of subgraphs"
)
def command_for_a_parent_that_is_missing():
    chain(a=lambda state: Command(goto="b", graph=Command.PARENT)).compile().invoke({})


@mistake(
    "UnknownTargetError: node 'a' goes to 'b', which is not a node of graph 'LangGraph'\n"
    "  Do this: the choices are 'a', END"
)
def send_to_an_unknown_node():
    chain(a=lambda state: [Send("b", {})]).compile().invoke({})


@mistake(
    "GraphRecursionError: Recursion limit of 5 reached without hitting a stop condition; graph "
    "'LangGraph' still has ['a']\n"
    '  Do this: let some edge lead to END, or raise config["recursion_limit"]; with a '
    "checkpointer it could go on from here"
)
def loop_without_an_end():
    builder = StateGraph(State)
    builder.add_node("a", write)
    builder.add_edge(START, "a")
    builder.add_edge("a", "a")
    builder.compile().invoke({}, {"recursion_limit": 5})

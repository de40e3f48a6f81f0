"""The port of bridges: what the core asks about the objects and calls of other libraries.

A program may use a library of graphs, Runnables, tools or messages beside this one. The core names
no such library. It calls a hook of `BRIDGE`, which does nothing of its own; a bridge
(`actorgraph/bridges/`) registers the functions that do.

    adapt input     `adapt`, `adapt_input`, `adapt_channel`, `adapt_reducer`, `adapt_manager`,
                    `adapt_parallel`, `adapt_serializer`: their object -> ours
    adapt result    `adapt_update`, `adapt_pairs`; `translate_error`
    wrap node       `check_node` as it is added, `wrap_node` as a run begins to use it
    enter task      `enter_task`, `trace_models`, `count_progress`: their calls in a task find it
    a run           `begin_run` reports it, to its end; `below_call`, `check_pause`: its caller
    messages        `stream_models`, `messages`, `whole_message`
    control flow    `is_control_flow`
    is instance     `is_command`, `holds_question`, `is_handler`, `is_tool_method` and others

Order      a bridge registers before the core is used: `import actorgraph` does it
Imports    a hook's place is a text: it is imported at the first call. A bridge imports a library
           only if the program has, or asks for it: by the name of a model, a method of Runnables.
           `types_module` and `calls_module` name what the program imports first; code of each
           superstep, and of errors, looks for them in `sys.modules` before it calls a hook
Bounds     one function for each hook: a second registration replaces the first
Ends       never; a hook that raises fails what called it

No I/O, nothing of the core is imported here: every layer may call it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from importlib import import_module
from typing import Any, TypeVar

Node = TypeVar("Node")
Config = TypeVar("Config")


class Bridge:
    """The hooks, as they are without a bridge: nothing is of another library.

    Attributes:
        types_module: the program has imported it if a value may be of another library's classes;
            "" for none.
        calls_module: the program has imported it if a node may call another library's code; ""
            for none.
        between: packages whose frames may be between the program's and this library's.
        unread: packages whose source has no functions of the program.
        passes_on: packages that hand configs on, as beginnings of module names.
        stored_types: classes of data that are always known to a codec: "module:name".
        refused_types: classes of data that are never stored -> the advice.
        message_types: the package of message classes, as the beginning of their stored names.
        wide_bases: modules whose classes are bases of too many others to be declared.
        data_modules: modules of classes whose objects are plain data.
        data_types: classes of which this is known one by one: (module, name).
        class_modules: beginning of the names of modules whose objects a saver may give back.
        saver_module: the module of another library's base class of savers.
    """

    types_module = ""
    calls_module = ""
    between: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    passes_on: tuple[str, ...] = ()
    stored_types: frozenset[str] = frozenset()
    refused_types: Mapping[str, str] = {}
    message_types = ""
    wide_bases: frozenset[str] = frozenset()
    data_modules: tuple[str, ...] = ()
    data_types: frozenset[tuple[str, str]] = frozenset()
    class_modules = ""
    saver_module = ""

    # Adapt input: their object -> ours.

    def adapt(self, thing: Any) -> Any:
        """Convert an object for a run, or those in a list; others are returned as they are."""
        return thing

    def adapt_input(self, given: Any) -> Any:
        """Convert the input of a run, or the values of one that is a dict."""
        return given

    def adapt_channel(self, candidate: Any, typ: Any = None, key: str = "") -> Any:
        """Make the rule of a channel in an annotation; None if it is none of another library's."""
        del candidate, typ, key

    def adapt_reducer(self, function: Any) -> Any:
        """Return this library's form of a reducer; others as they are."""
        return function

    def adapt_manager(self, mark: type) -> type:
        """Return this library's form of a managed value; others as they are."""
        return mark

    def adapt_parallel(self, functions: Mapping[str, Any]) -> Any:
        """Make a dict of functions into one object that calls them all; None if that's unknown."""
        del functions

    def adapt_serializer(self, serde: Any, compress_above: int | None) -> Any:
        """Return a codec for another library's serializer; others as they are.

        Args:
            compress_above: for the codec.
        """
        del compress_above
        return serde

    # Adapt result.

    def adapt_update(self, update: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert the values of an update."""
        return update

    def adapt_pairs(self, pairs: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
        """Convert the values of an update's pairs."""
        return pairs

    def is_command(self, kind: Any) -> bool:
        """Whether a class is another library's Command."""
        del kind
        return False

    def holds_question(self, thing: Any) -> bool:
        """Whether a value is another library's Interrupt, or a list with one."""
        del thing
        return False

    def export(self, item: Any, inner: Callable[[Any], Any]) -> Any:
        """Make another library's object of ours, for a saver or a tool of that library.

        Args:
            inner: converts the value in it.
        """
        del inner
        return item

    def default_serializer(self) -> Any:
        """Return a serializer for new savers; None for ours."""

    # Wrap node.

    def check_node(self, name: str, action: Any) -> None:
        """Refuse a node that only another library's runs can run."""

    def wrap_node(self, node: Node) -> Node:
        """Adapt a node to the running event loop, and to the library whose object it is."""
        return node

    # Enter task. Called after `calls_module` was seen, but for the first.

    def enter_task(self, config: Mapping[str, Any]) -> Callable[[Any, Context], None] | None:
        """Return a function that passes a task's config to another library's calls in it.

        Returns: takes the task's scope and its context; None if nothing has to be passed.
        """
        del config

    def stream_models(self, tap: Any, scope: Any, context: Context) -> None:
        """Send the output of the models that a task calls to its tap."""

    def count_progress(self, scope: Any, context: Context) -> None:
        """Let the calls of a task restart its idle timeout."""

    def trace_models(self, scope: Any, context: Context) -> Any:
        """Let the models that a task calls make spans, and return the open ones."""

    # A run begins and ends.

    async def begin_run(self, launch: Any) -> Any:
        """Report that a run begins; return what reports the rest, or None if nothing listens."""
        del launch

    def below_call(self, config: Config, scope: Any) -> Config:
        """Merge a call's config over that of another library's call which makes it.

        Args:
            scope: of the task that makes the call; None outside of a node.
        """
        del scope
        return config

    def feeds_events(self, config: Mapping[str, Any]) -> bool:
        """Whether another library's event stream listens to a call."""
        del config
        return False

    def check_pause(
        self, context: Context, thread_id: str, name: str, asked: Sequence[Any]
    ) -> None:
        """Refuse a pause in a node of another library's, whose run would go on.

        Args:
            context: the caller's.
            thread_id: of the run that pauses; "" if it has none.
            name: of its graph.
            asked: its questions; none at a breakpoint.
        """

    # Control flow.

    def translate_error(self, error: BaseException, name: str) -> BaseException:
        """Make an error of ours of another library's interrupt or command, also in a group.

        Args:
            name: of the node, for errors; "" for that of the running task.
        """
        del name
        return error

    def is_control_flow(self, error: BaseException | None) -> bool:
        """Whether it is another library's, and error handling must let it through."""
        del error
        return False

    # Messages and handlers.

    def messages(self) -> Any:
        """Return another library's module of messages, if the program has imported it."""

    def whole_message(self, message: Any) -> Any:
        """Make a plain message of a sum of chunks; ours are returned as they are."""
        return message

    def is_manager(self, callbacks: Any) -> bool:
        """Whether a config's callbacks are another library's callback manager."""
        del callbacks
        return False

    def is_handler(self, callback: Any) -> bool:
        """Whether an object is a handler of another library's callbacks."""
        del callback
        return False

    def named_model(self, name: str) -> Any:
        """Make the chat model of a name.

        Raises:
            ImportError: the library that knows it isn't installed.
        """
        raise ImportError(name)

    def named_embeddings(self, name: str) -> Any:
        """Make the embeddings of a name.

        Raises:
            ImportError: the library that knows them isn't installed.
        """
        raise ImportError(name)

    # Tools.

    def mark_tools(self) -> None:
        """Let another library recognize our marks of hidden arguments, and our results."""

    def is_tool_method(self, method: Any) -> bool:
        """Whether a method of a tool is the library's, not one of the tool's own class."""
        del method
        return False

    def is_tool_default(self, method: Any) -> bool:
        """Whether a method of a tool is that of the library's base class."""
        del method
        return False

    def is_tool_runtime(self, kind: Any) -> bool:
        """Whether a class is another library's ToolRuntime."""
        del kind
        return False

    def export_tool_runtime(self, ours: Any) -> Any:
        """Make another library's ToolRuntime of ours."""
        return ours

    # Graphs as Runnables.

    def loaded_runnable(self) -> Any:
        """Return the class of Runnables, if the program has imported it."""

    def imported_runnable(self, what: str) -> Any:
        """Import the class of Runnables.

        Args:
            what: the operation that needs it, for the error.
        Raises:
            ImportError: it can't be imported.
        """
        raise ImportError(what)

    def adopt_graphs(self, graphs: type) -> None:
        """Make a class of graphs a virtual subclass of Runnables."""

    def borrowed(self, graph: Any, name: str) -> Any:
        """Return an attribute of Runnables, bound to a graph.

        Raises:
            AttributeError: they have none of this name.
        """
        msg = f"{type(graph).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg, name=name, obj=graph)

    def as_runnable(self, call: Any, acall: Any, name: str) -> Any:
        """Make a Runnable of a function and its async form.

        Raises:
            ImportError: Runnables can't be imported.
        """
        del call, acall
        raise ImportError(name)

    def chain_events(self, graph: Any, given: Any, config: Any, version: str, options: Any) -> Any:
        """Read the events of a run as another library makes them.

        Raises:
            ImportError: that library can't be imported.
        """
        del graph, given, config, options
        raise ImportError(version)

    def pydantic_model(self, name: str, types: dict[str, Any]) -> Any:
        """Make a pydantic model with optional keys of these types.

        Raises:
            ImportError: the library that makes it can't be imported.
        """
        del types
        raise ImportError(name)

    def refused_by_pydantic(self) -> type[Exception]:
        """Return the error for a class that can't be made such a model."""
        return TypeError


BRIDGE = Bridge()
"""The hooks that the core calls."""


def register(hooks: Mapping[str, str], **facts: Any) -> None:
    """Let functions of a bridge answer for hooks.

    Args:
        hooks: name of a hook -> place of its function, "package.module:function", which is
            imported when the hook is called for the first time.
        facts: attributes of `Bridge`.
    Raises:
        AttributeError: a name is unknown; nothing is registered then.
    """
    for name in (*hooks, *facts):
        getattr(Bridge, name)
    for name, place in hooks.items():
        setattr(BRIDGE, name, _late(name, place))
    for name, value in facts.items():
        setattr(BRIDGE, name, value)


def _late(name: str, place: str) -> Callable[..., Any]:
    """Return a function that imports a hook's own, puts it in its place and calls it."""
    module, _, function = place.partition(":")

    def first(*args: Any, **more: Any) -> Any:
        hook = getattr(import_module(module), function)
        setattr(BRIDGE, name, hook)
        return hook(*args, **more)

    return first

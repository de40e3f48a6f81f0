"""Use a compiled graph as a step of a LangChain chain: `prompt | graph`, `graph | parser`."""

from typing import Any

from actorgraph.api.compiled import Config
from actorgraph.api.facade import BlockingMethods
from actorgraph.errors import MissingExtraError


class ChainMethods(BlockingMethods):
    """Methods that LangChain calls; `langchain_core` is imported when one of them is used."""

    def as_runnable(self) -> Any:
        """Wrap the graph as a LangChain Runnable, whose `stream` yields one chunk.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        try:
            from langchain_core.runnables import RunnableLambda
        except ImportError:
            raise MissingExtraError(
                "as_runnable() needs langchain-core, which is not installed",
                do="pip install 'actorgraph[langchain]'",
            ) from None

        def invoke(input: Any, config: Config) -> Any:
            return self.invoke(input, config)

        async def ainvoke(input: Any, config: Config) -> Any:
            return await self.ainvoke(input, config)

        return RunnableLambda(invoke, afunc=ainvoke, name=self.name)

    def __call__(self, input: Any, config: Config | None = None) -> Any:
        """Call `invoke`; LangChain takes a callable as the step of a chain."""
        return self.invoke(input, config)

    def __or__(self, step: Any) -> Any:
        return self.as_runnable() | step

    def __ror__(self, step: Any) -> Any:
        return step | self.as_runnable()

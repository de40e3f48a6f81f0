"""Several configs become one."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager

from actorgraph.values.configs import merge_configs, nested_config


class Handler(BaseCallbackHandler):
    pass


class TestMerged:
    @pytest.mark.langgraph("F-C21")
    def test_each_kind_of_entry_has_its_rule(self):
        """
        `configurable` and `metadata` merge by key, `tags` add up, of others the later one wins.
        """
        first = {
            "configurable": {"a": 1, "b": 1},
            "metadata": {"m": 1, "n": 1},
            "tags": ["t"],
            "run_name": "first",
            "max_concurrency": 2,
        }
        second = {
            "configurable": {"b": 2},
            "metadata": {"n": 2},
            "tags": ["u"],
            "run_name": "second",
        }

        assert merge_configs(first, second) == {
            "configurable": {"a": 1, "b": 2},
            "metadata": {"m": 1, "n": 2},
            "tags": ["t", "u"],
            "run_name": "second",
            "max_concurrency": 2,
        }

    @pytest.mark.langgraph("F-C21")
    @pytest.mark.parametrize("limit", [1, 25, 10_007])
    def test_a_recursion_limit_wins_by_being_given(self, limit):
        """
        Also when it equals the default.
        """
        assert merge_configs({"recursion_limit": 5}, {"recursion_limit": limit}) == {
            "recursion_limit": limit
        }
        assert merge_configs({"recursion_limit": 5}, {}, None) == {"recursion_limit": 5}

    @pytest.mark.langgraph("F-C21")
    def test_none_counts_as_absent(self):
        """
        An entry that is None takes nothing away.
        """
        assert merge_configs({"tags": ["t"], "run_id": "r"}, {"tags": None, "run_id": None}) == {
            "tags": ["t"],
            "run_id": "r",
        }

    def test_nothing_given_is_changed(self):
        """
        The configs that are merged stay as they are.
        """
        first, second = {"tags": ["t"], "metadata": {"a": 1}}, {"tags": ["u"], "metadata": {"b": 2}}
        merge_configs(first, second)

        assert first == {"tags": ["t"], "metadata": {"a": 1}}
        assert second == {"tags": ["u"], "metadata": {"b": 2}}


class TestCallbacks:
    @pytest.mark.langgraph("F-C21")
    @pytest.mark.parametrize("first_is_manager", [True, False])
    @pytest.mark.parametrize("second_is_manager", [True, False])
    def test_handlers_add_up_in_lists_and_managers(self, first_is_manager, second_is_manager):
        """
        Every handler of both is there once, and neither side is changed.
        """
        a, b, c = Handler(), Handler(), Handler()

        def made(handlers, as_manager):
            return CallbackManager(handlers) if as_manager else handlers

        first, second = made([a, b], first_is_manager), made([b, c], second_is_manager)
        result = merge_configs({"callbacks": first}, {"callbacks": second})["callbacks"]
        handlers = result if isinstance(result, list) else result.handlers

        assert {id(h) for h in handlers} == {id(a), id(b), id(c)}
        assert len(handlers) == 3
        assert len(getattr(first, "handlers", first)) == 2
        assert len(getattr(second, "handlers", second)) == 2

    def test_the_same_object_stays_itself(self):
        """
        A config that comes back from a node brings no second copy of its callbacks.
        """
        manager = CallbackManager([Handler()])

        assert merge_configs({"callbacks": manager}, {"callbacks": manager})["callbacks"] is manager


class TestBelow:
    @pytest.mark.langgraph("F-C21")
    def test_tags_from_above_are_not_doubled(self):
        """
        A nested run that is given its node's config has each tag once, and its own besides.
        """
        above = {"tags": ["t"], "recursion_limit": 9}

        assert nested_config(above, {"tags": ["t", "u"]}) == {
            "tags": ["t", "u"],
            "recursion_limit": 9,
        }
        assert nested_config(above, None) == above

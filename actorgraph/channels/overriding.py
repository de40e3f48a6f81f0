"""The check of Channel's subclasses: a method that would never be called is an error."""

import inspect

from actorgraph.errors import GraphBuildError
from actorgraph.errors.replacing import is_own_class

_FLAGS = {
    "consume": ("consumable", True),
    "finish": ("finishes", True),
    "idle": ("clears", True),
    "read": ("transparent", False),
}
_THEIRS = ("update", "get", "is_available", "checkpoint", "from_checkpoint")


def check_overrides(kind: type) -> None:
    """Refuse a subclass of a rule with methods that are never called; set its flags.

    Raises:
        GraphBuildError: it has LangGraph's methods, which belong to `BaseChannel`; or a method with
            a wrong signature; or `dump` or `load` although its values are not stored.
    """
    own = [each for each in kind.__mro__ if not is_own_class(each)]
    defined = {name: vars(each)[name] for each in reversed(own) for name in vars(each)}
    if theirs := [name for name in _THEIRS if name in defined and "fold" not in defined]:
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(theirs)}, which is never called: a "
            f"{_rule_of(kind)} of actorgraph is a rule without a value",
            do="override fold(name, value, writes), which returns the new value: "
            "`return super().fold(name, value, changed_writes)`; or derive the class from "
            "channels.BaseChannel, which has LangGraph's methods",
        )
    if not getattr(kind, "stored", True) and (stores := {"dump", "load"}.intersection(defined)):
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(sorted(stores))}, but its values are not stored",
            do="set stored = True in the class, or derive it from a channel that is stored",
        )
    for name, (flag, value) in _FLAGS.items():
        if name not in defined:
            continue
        if not _takes_value(defined[name]):
            raise GraphBuildError(
                f"{kind.__name__}.{name}() doesn't take the cell's value",
                do=f"write {name}(self, value), which returns the new value or UNCHANGED; or "
                "derive the class from channels.BaseChannel, which has LangGraph's methods",
            )
        if flag not in defined:
            setattr(kind, flag, value)


def _rule_of(kind: type) -> str:
    ours = (each for each in kind.__mro__ if is_own_class(each))
    return next(ours).__name__


def _takes_value(method: object) -> bool:
    if not inspect.isfunction(method):
        return True
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return False
    return True

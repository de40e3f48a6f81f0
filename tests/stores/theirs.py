"""Operations in LangGraph's classes."""

from langgraph.store import base


def their_op(op):
    """The same operation, in LangGraph's class of that name."""
    kind = getattr(base, type(op).__name__)
    if kind is base.ListNamespacesOp:
        conditions = [base.MatchCondition(*c) for c in op.match_conditions or ()]
        op = op._replace(match_conditions=tuple(conditions))
    return kind(*op)

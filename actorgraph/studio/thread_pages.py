"""Pages about threads: the list, and one thread with its graph, steps and state."""

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.runtime.clock import microseconds_now
from actorgraph.studio.pages import Handler, StudioCall
from actorgraph.studio.shown import part
from actorgraph.studio.source import ThreadEntry, checkpoint_of, parent_of
from actorgraph.studio.thread_views import (
    bars_of,
    failures_of,
    marks_of,
    questions_of,
    state_view,
    step_rows,
)
from actorgraph.studio.waterfall import waterfall
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.web.problems import NotFound

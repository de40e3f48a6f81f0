"""The machine: Hypothesis draws what is done to a saver, which must stay as the model."""

from tests.savers.machine.puts import Puts
from tests.savers.machine.reads import Reads
from tests.savers.machine.removals import Removals
from tests.savers.machine.runs import Runs


class SaverMachine(Puts, Reads, Removals, Runs):
    """All rules."""

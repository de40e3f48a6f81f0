"""Copies, removals and re-encryption: write a new file beside the old one, then rename it.

Until the rename the old file is untouched, so a crash or a full disk changes nothing. The folder's
one writer does it, so no save comes in between. A file that would have no line is removed.
"""

from actorgraph.codec.frames import frames
from actorgraph.savers.jsonl.lines import Line, payload_of, raw_of
from actorgraph.values.ids import as_bytes
from actorgraph.values.retention import Resealer


def resealed_line(line: Line, resealer: Resealer) -> Line:
    """Re-encrypt the payloads of a line, in place; return it.

    Raises:
        EncryptionError: a payload can't be decrypted.
    """
    namespace = line.namespace
    for value in line.values:
        payload = payload_of(value.value)
        made = resealer.value(namespace, value.channel, value.version, payload)
        value.value = raw_of(made)
    for part in line.lists:
        if part.items:
            where = (namespace, part.channel, part.lineage, part.position)
            part.items = [raw_of(p) for p in frames(resealer.items(*where, part.payload))]
    for entry in line.ledger:
        entry.writes = raw_of(resealer.writes(namespace, entry.row))
    claim = line.claim
    if claim is not None and line.run is not None:
        run = as_bytes(line.run)
        claim.input = [raw_of(resealer.input(run, payload_of(raw))) for raw in claim.input]
    return line

"""The chain of an audit log: what was changed is found."""

import json
from datetime import datetime

import pytest

from actorgraph import AuditHead, AuditLog, verify_audit_log
from actorgraph.errors import AuditError


@pytest.fixture
def log(tmp_path):
    """A log with five entries, closed."""
    log = AuditLog(tmp_path / "audit.log")
    for number in range(5):
        log.append("ada", "put", f"t{number}", "")
    log.sync()
    log.close()
    return log


def changed(line: bytes) -> bytes:
    """The line with another actor, and a hash that fits."""
    from actorgraph.api.savers.wrappers.audit import _hash

    entry = json.loads(line) | {"actor": "bob"}
    del entry["hash"]
    return json.dumps({**entry, "hash": _hash(entry)}).encode() + b"\n"


@pytest.mark.promise("S208")
@pytest.mark.parametrize(
    ("forge", "place"),
    [
        (lambda lines: [lines[0].replace(b"ada", b"eve"), *lines[1:]], 1),
        (lambda lines: [changed(lines[0]), *lines[1:]], 2),
        (lambda lines: [*lines[:2], *lines[3:]], 3),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: [*lines[:2], lines[3], lines[2], lines[4]], 3),
        (lambda lines: [*lines, b"{}\n"], 6),
        (lambda lines: [*lines, b"[1]\n"], 6),
    ],
)
def test_changed_lines_are_found(log, forge, place):
    """
    A changed, removed, repeated, moved or added line is named.
    """
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(forge(lines)))

    with pytest.raises(AuditError, match=f"line {place} "):
        verify_audit_log(log.path)
    with pytest.raises(AuditError, match=f"line {place} "):
        log.open()


@pytest.mark.promise("S208")
def test_a_cut_end_shows_against_a_known_head(log):
    """
    Without its end the chain is valid, and lacks the entry that was kept elsewhere.
    """
    head = verify_audit_log(log.path)
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(lines[:3]))

    assert head.number == 5
    assert verify_audit_log(log.path, AuditHead(0, "0" * 64)).number == 3
    with pytest.raises(AuditError, match="no entry"):
        verify_audit_log(log.path, head)


def test_it_is_gone_on_with(log):
    """
    A new process goes on with the chain, and takes away a line that a power cut left unfinished.
    """
    with log.path.open("ab") as file:
        file.write(b'{"n": 6, "time"')
    again = AuditLog(log.path)
    again.append(None, "get", "t", "")
    again.close()

    assert verify_audit_log(log.path).number == 6
    assert log.path.stat().st_mode & 0o077 == 0


def test_holes_of_entries_that_were_never_synced_are_cut_off(log, capsys):
    """
    After a power cut entries may have holes in front of their newlines: they go, with a warning.
    A hole in an entry that a later one knows to be durable is a changed line.
    """
    again = AuditLog(log.path)
    for number in range(3):
        again.append("ada", "put", f"u{number}", "")
    again.close()
    lines = log.path.read_bytes().splitlines(keepends=True)
    for place in (5, 6, 7):
        holed = lines[place][:20] + bytes(10) + lines[place][30:]
        log.path.write_bytes(b"".join([*lines[:place], holed, *lines[place + 1 :]]))
        again = AuditLog(log.path)
        assert again.head.number == place
        again.close()
    assert "unacknowledged_end_cut" in capsys.readouterr().err

    holed = lines[4][:20] + bytes(10) + lines[4][30:]
    log.path.write_bytes(b"".join([*lines[:4], holed, *lines[5:]]))
    with pytest.raises(AuditError, match="line 5 "):
        AuditLog(log.path).open()


def test_one_process_writes_it(log):
    """
    A second writer is refused: two chains can't be one.
    """
    first, second = AuditLog(log.path), AuditLog(log.path)
    first.open()
    with pytest.raises(AuditError, match="in use"):
        second.open()
    first.close()
    second.open()
    second.close()


@pytest.mark.promise("S208", "S209")
def test_old_entries_can_be_trimmed(log):
    """
    Without its oldest entries the chain goes on from the hash of the last one removed, and a
    change shows as before.
    """
    lines = log.path.read_bytes().splitlines()
    third = datetime.fromisoformat(json.loads(lines[2])["time"])
    head = verify_audit_log(log.path)

    assert (log.trim(third), log.trim(third)) == (2, 0)
    assert log.trim(datetime.fromisoformat(json.loads(lines[3])["time"])) == 1
    log.append("bob", "get", "t", "")
    log.close()

    assert verify_audit_log(log.path, head).number == 6
    kept = log.path.read_bytes()
    assert [json.loads(line).get("n") for line in kept.splitlines()] == [None, 4, 5, 6]
    log.path.write_bytes(kept.replace(b"t3", b"t9"))
    with pytest.raises(AuditError, match="line 2 "):
        verify_audit_log(log.path)

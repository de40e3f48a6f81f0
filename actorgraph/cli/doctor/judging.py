"""All checks of doctor, and the judgement over one set of facts."""

from collections.abc import Callable, Iterable

from actorgraph.cli.doctor import database_checks, program_checks, setting_checks
from actorgraph.cli.doctor.diagnosis import Diagnosis, in_order
from actorgraph.cli.doctor.facts import Examined

Check = Callable[[Examined], Iterable[Diagnosis]]

CHECKS: tuple[Check, ...] = (
    program_checks.check_import,
    program_checks.check_extras,
    program_checks.check_blocking_calls,
    program_checks.check_file_calls,
    program_checks.check_backend,
    program_checks.check_returned_keys,
    program_checks.check_wiring,
    program_checks.check_pauses,
    program_checks.check_exit,
    program_checks.check_types,
    program_checks.check_input,
    database_checks.check_opening,
    database_checks.check_writing,
    database_checks.check_version,
    database_checks.check_place,
    database_checks.check_sharing,
    database_checks.check_key,
    database_checks.check_history,
    database_checks.check_retention,
    database_checks.check_threads,
    database_checks.check_settings,
    database_checks.check_runs,
    setting_checks.check_leases,
    setting_checks.check_access,
    setting_checks.check_rates,
    setting_checks.check_origins,
    setting_checks.check_hosts,
)


def diagnose(facts: Examined) -> list[Diagnosis]:
    """Return the findings of all checks, errors first."""
    return in_order(found for check in CHECKS for found in check(facts))

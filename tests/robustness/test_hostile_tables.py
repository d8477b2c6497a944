"""A few hundred hostile tables; ``python -m tests.robustness.fuzz_tables`` runs thousands."""

from hypothesis import HealthCheck, given, settings

from robustness.hostile_tables import Case, cases
from robustness.table_checks import check_case


@settings(max_examples=200, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False)
@given(cases())
def test_hostile_table_gives_a_sound_model_or_a_helpful_refusal(case: Case):
    check_case(case)

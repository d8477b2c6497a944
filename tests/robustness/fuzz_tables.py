"""Thousands of hostile tables: ``python -m tests.robustness.fuzz_tables --cases 2000 --seed 0 --time-limit 600``."""

import argparse
import collections
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hypothesis import HealthCheck, Phase, given, seed, settings

from robustness.hostile_tables import Case, cases
from robustness.table_checks import check_case


def fuzz(n_cases: int, start: int, time_limit: float) -> tuple[collections.Counter[str], dict[str, str]]:
    """How many cases were fitted, refused and failed within the time, and one case for each kind of failure."""
    counts: collections.Counter[str] = collections.Counter()
    failures: dict[str, str] = {}
    end = time.monotonic() + time_limit

    @seed(start)
    @settings(
        max_examples=n_cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def run(case: Case) -> None:
        if time.monotonic() > end:
            return
        try:
            counts[check_case(case)] += 1
        except Exception as error:
            counts["failed"] += 1
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            failures.setdefault(f"{type(error).__name__} at {where}: {str(error)[:160]}", repr(case))

    run()
    return counts, failures


def main() -> int:
    """Run, print what was found, and return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds")
    arguments = parser.parse_args()
    begin = time.monotonic()
    counts, failures = fuzz(arguments.cases, arguments.seed, arguments.time_limit)
    for message, case in failures.items():
        print(f"\n{message}\n  {case}")
    print(
        f"{counts.total()} tables in {time.monotonic() - begin:.0f} s: {counts['fitted']} fitted, {counts['refused']} refused, "
        f"{counts['failed']} failed ({len(failures)} kinds)"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

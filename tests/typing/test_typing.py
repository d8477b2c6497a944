"""The public interface has types for users who check theirs strictly."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "user_program.py"


def check(*programs: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    # No configuration of ours: only that packages without types are no error, which every user of scikit-learn needs.
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent",
         f"--cache-dir={cache}", *map(str, programs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_program_of_a_user_passes_the_strict_check_and_a_wrong_one_does_not(tmp_path):
    pytest.importorskip("mypy", reason="the check of types needs mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        'from skinnytrees import SkinnyTreesClassifier\nSkinnyTreesClassifier(size_rule="bets").fit([[0]], [0])\n'
    )
    done = check(PROGRAM, wrong, cache=tmp_path)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert "wrong.py" in errors[0]
    assert "size_rule" in errors[0]

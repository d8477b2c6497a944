"""The authors' own trials, replayed: the strongest evidence that the algorithm is theirs."""

import pytest

from skinnytrees.datasets import data_folder, load
from skinnytrees.experiments.replay import read_trials, replay, sample_trials, seeds_for, summarize


@pytest.mark.shared
def test_replayed_trials_end_with_the_logged_number_of_features_and_auc(capsys):
    # The quickest quarter of the sample; ``python -m skinnytrees.experiments.replay`` replays all of it.
    trials = sample_trials(read_trials(data_folder().parent / "reference"))[:15]
    data = load("churn")
    result = summarize(trials, [replay(trial, data, seeds_for(trial, most=2)) for trial in trials])
    with capsys.disabled():
        print("\nreplay of 15 trials:", ", ".join(f"{name} {value:.3g}" for name, value in result.items()))
    assert result["median difference in features"] <= 1
    assert result["fraction within 2"] >= 0.8
    assert result["Spearman correlation of AUC"] >= 0.85

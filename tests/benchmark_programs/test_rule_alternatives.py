"""The benchmark of rules: its alternatives are rules as data, and it fits with them."""

import argparse
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine

from benchmarks.rule_alternatives import ALTERNATIVES, DEFAULT, Alternative, blends, parsed_alternative, rule
from benchmarks.rules import SharedWalk, measure, with_rules
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.path.rules import DEFAULT_RULES


@pytest.mark.parametrize("one", ALTERNATIVES, ids=lambda one: f"{one.rule}: {one.name}")
def test_alternative_changes_the_rules_or_what_is_around_the_fit(one: Alternative):
    rules = one.change(DEFAULT_RULES)
    assert (rules == DEFAULT_RULES) != (one.context is nullcontext)
    for n_rows in (50, 500, 1500, 100_000):
        rules.for_rows(n_rows)


def test_names_of_alternatives_are_unique():
    names = [(one.rule, one.name) for one in [DEFAULT, *ALTERNATIVES]]
    assert len(set(names)) == len(names)


def test_rule_from_the_command_line():
    assert parsed_alternative("pruning.needs_rows=inf").change(DEFAULT_RULES).pruning.needs_rows == np.inf
    assert parsed_alternative("pruning.fill_in=(True,)").change(DEFAULT_RULES).pruning.fill_in == (True,)


@pytest.mark.parametrize(
    ("text", "message"), [("swap.gain=1", "swaps.gain"), ("swaps.gain='no'", "number"), ("x", "sets no rule")]
)
def test_wrong_rule_from_the_command_line_is_refused(text, message):
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        parsed_alternative(text)


def test_estimator_with_other_rules_is_cloned_with_them():
    rules = rule("swaps.gain", 0.99)(DEFAULT_RULES)
    assert clone(with_rules(SkinnyTreesClassifier, rules)(3))._rules is rules


def test_fit_on_a_shared_walk_is_the_fit_on_its_own():
    X, y = load_wine(return_X_y=True)
    split = (X[::2], y[::2], X[1::2], y[1::2])
    rules, walk = blends("light")(DEFAULT_RULES), SharedWalk()
    with walk.shared():
        default, shared = measure(split, 3, 0), measure(split, 3, 0, rules)
    assert walk.seconds_saved > 0
    alone = measure(split, 3, 0, rules)
    assert {**shared, "seconds": 0} == {**alone, "seconds": 0} != {**default, "seconds": 0}

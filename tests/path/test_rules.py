"""Rules as data: names, replacement, and what follows from the number of rows."""

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from sklearn.base import clone

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.optimizers import Constant
from skinnytrees.path.pruning import after_losing, for_columns
from skinnytrees.path.rules import DEFAULT_RULES, FinalRules, replace_rule, rule_names

from .helpers import QUICK, random_problem, with_rules


def value_of(rules, name):
    for part in name.split("."):
        rules = getattr(rules, part)
    return rules


@pytest.mark.parametrize("name", list(rule_names()))
def test_every_rule_can_be_replaced_by_name_and_no_other_changes(name):
    old = value_of(DEFAULT_RULES, name)
    new = old + 1 if isinstance(old, int) else old / 2 if isinstance(old, float) else None
    changed = replace_rule(DEFAULT_RULES, name, new)
    assert value_of(changed, name) == new
    assert replace_rule(changed, name, old) == DEFAULT_RULES
    assert value_of(DEFAULT_RULES, name) == old


def test_whole_sections_and_recipes_can_be_replaced_by_name():
    final = FinalRules(fewest_trees=3)
    assert replace_rule(DEFAULT_RULES, "final", final).final is final
    assert replace_rule(DEFAULT_RULES, "final.averaged.schedule", Constant()).final.averaged.schedule == Constant()


@pytest.mark.parametrize("name", ["swap.gain", "swaps.gains", "gain", "swaps.gain.more", ""])
def test_unknown_name_is_refused_with_the_nearest_ones(name):
    with pytest.raises(ValueError, match=r"There is no rule .* The nearest names are \w+\.\w+"):
        replace_rule(DEFAULT_RULES, name, 1.0)


def test_text_is_refused_where_a_number_is_needed():
    with pytest.raises(ValueError, match=r"swaps\.gain is a number, but 'high' was given\. Use a number such as 0\.95"):
        replace_rule(DEFAULT_RULES, "swaps.gain", "high")


def test_rules_cannot_be_changed_in_place_and_can_be_hashed_and_pickled():
    with pytest.raises(FrozenInstanceError):
        DEFAULT_RULES.swaps.gain = 0.5
    assert hash(DEFAULT_RULES) == hash(pickle.loads(pickle.dumps(DEFAULT_RULES)))


@pytest.mark.parametrize("estimator", [SkinnyTreesClassifier, SkinnyTreesRegressor])
def test_estimator_with_other_rules_keeps_them_when_cloned(estimator):
    rules = replace_rule(DEFAULT_RULES, "swaps.gain", 0.5)
    model = with_rules(estimator, rules)(3, l2=0.5)
    copy = clone(model)
    assert copy._rules is rules
    assert copy.get_params() == model.get_params() == estimator(3, l2=0.5).get_params()
    assert estimator._rules is DEFAULT_RULES


def test_rules_of_the_estimator_reach_the_fit():
    X, y = random_problem(0, 6)
    rules = replace_rule(DEFAULT_RULES, "sizes.every_size_below", 2)
    sizes = with_rules(SkinnyTreesRegressor, rules)(5, **QUICK).fit(X, y).path_.n_features
    assert sizes.tolist() == [6, 5, 4, 3, 2, 1]
    rules = replace_rule(rules, "sizes.ratio", 0.5)
    assert with_rules(SkinnyTreesRegressor, rules)(5, **QUICK).fit(X, y).path_.n_features.tolist() == [6, 5, 3, 2, 1]


# ------------------------------------------------------------------------------------------------ for rows and columns


@pytest.mark.parametrize(("n_rows", "batch_size"), [(10, 16), (1000, 16), (1001, 64), (20_000, 64), (20_001, 256)])
def test_batches_grow_with_the_rows(n_rows, batch_size):
    recipes = DEFAULT_RULES.for_rows(n_rows)
    assert recipes.screen.batch_size == recipes.averaged.batch_size == batch_size
    assert recipes.prune.batch_size == recipes.large.batch_size == max(32, batch_size)


def test_epochs_fall_as_one_over_the_rows_but_not_below_two():
    epochs = [DEFAULT_RULES.for_rows(n_rows).large.n_epochs for n_rows in (100, 5000, 10_000, 50_000, 10**7)]
    assert epochs == [30, 30, 15, 3, 2]


def test_ridge_of_pruning_falls_as_one_over_the_rows_between_its_limits():
    ridges = [DEFAULT_RULES.for_rows(n_rows).prune.l2 for n_rows in (100, 300, 600, 1000, 10**6)]
    np.testing.assert_allclose(ridges, [1, 1, 0.5, 0.3, 0.3])


@pytest.mark.parametrize(("n_rows", "prune_from"), [(399, 0), (400, 100), (3000, 100), (3030, 101), (30_000, 1000)])
def test_pruning_starts_at_a_hundred_groups_or_at_one_per_thirty_rows(n_rows, prune_from):
    assert DEFAULT_RULES.for_rows(n_rows).prune_from == prune_from


def test_users_batch_size_is_that_of_every_training_and_the_rest_of_the_final_ensembles_only():
    recipes = DEFAULT_RULES.for_rows(500, batch_size=50, n_trees=3)
    phases = [getattr(recipes, field.name) for field in fields(recipes)[1:7]]
    assert {recipe.batch_size for recipe in phases} == {50}
    assert recipes.averaged.n_trees == recipes.with_users_choices(recipes.large).n_trees == 3
    assert recipes.screen.n_trees == 20


def test_rate_falls_and_ridge_grows_with_the_columns_unless_the_rules_say_otherwise():
    recipe, rules = DEFAULT_RULES.for_rows(500).prune, DEFAULT_RULES.pruning
    assert for_columns(recipe, 16, rules) == recipe
    many = for_columns(recipe, 64, rules)
    assert many.learning_rate == pytest.approx(recipe.learning_rate / 2)
    assert many.l2 == pytest.approx(2 * recipe.l2)
    assert for_columns(recipe, 64, replace(rules, columns_power=0.0)) == recipe


def test_fewer_epochs_where_few_groups_have_gone():
    recipe = replace(DEFAULT_RULES.for_rows(500).prune_stage, n_epochs=20)
    n_epochs = [after_losing(recipe, fraction, DEFAULT_RULES).n_epochs for fraction in (0.5, 0.25, 0.0625, 0.0)]
    assert n_epochs == [20, 20, 10, 2]
    assert after_losing(replace(recipe, n_epochs=1), 0.0, DEFAULT_RULES).n_epochs == 1

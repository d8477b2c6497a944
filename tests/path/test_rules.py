"""Rules as data: names, replacement, and what follows from the number of rows."""

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from sklearn.base import clone

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.optimizers import Constant
from skinnytrees.path.pruning import after_losing, for_columns
from skinnytrees.path.rules import (
    DEFAULT_RULES,
    RANKS_AND_AXES,
    VALUES_AND_PLANES,
    FinalRules,
    PathRules,
    Recipe,
    replace_rule,
    rule_names,
)
from skinnytrees.path.styles import Style
from skinnytrees.starts import AxisAligned
from skinnytrees.tables.column_views import Views

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
    with pytest.raises(ValueError, match=r"swaps\.gain is a number, but 'high' was given\. Use a number such as 0\.9"):
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
    rules = replace_rule(replace_rule(DEFAULT_RULES, "final.large.n_epochs", 30), "final.few_rows_below", 0)
    epochs = [rules.for_rows(n_rows).large.n_epochs for n_rows in (100, 5000, 10_000, 50_000, 10**7)]
    assert epochs == [30, 30, 15, 3, 2]


def test_ridge_of_pruning_falls_as_one_over_the_rows_between_its_limits():
    rules = replace_rule(DEFAULT_RULES, "pruning.start.l2", 1.0)
    ridges = [rules.for_rows(n_rows).prune.l2 for n_rows in (100, 300, 600, 1000, 10**6)]
    np.testing.assert_allclose(ridges, [1, 1, 0.5, 0.3, 0.3])


@pytest.mark.parametrize(("n_rows", "prune_from"), [(399, 0), (400, 100), (3000, 100), (3030, 101), (30_000, 1000)])
def test_pruning_starts_at_a_hundred_groups_or_at_one_per_thirty_rows(n_rows, prune_from):
    pruning = replace(DEFAULT_RULES.pruning, needs_rows=400, starts_at=100, rows_per_group=30)
    rules = PathRules(pruning=pruning)
    assert rules.for_rows(n_rows).prune_from == prune_from
    for other_rows in (10, n_rows, 10**6):
        assert rules.in_phases_for(n_rows).for_rows(other_rows).prune_from == prune_from


def test_users_batch_size_is_that_of_every_training_and_the_rest_of_the_final_ensembles_only():
    recipes = DEFAULT_RULES.for_rows(500, batch_size=50, depth=3, n_trees=12)
    phases = [one for field in fields(recipes) if isinstance(one := getattr(recipes, field.name), Recipe)]
    assert {recipe.batch_size for recipe in phases} == {50}
    assert recipes.small.depth == recipes.averaged.depth == recipes.with_users_choices(recipes.large).depth == 3
    assert recipes.screen.depth == DEFAULT_RULES.screening.start.depth
    for blend in recipes.with_users_trees([(recipes.small,), (recipes.small, recipes.large)]):
        assert sum(recipe.n_trees * recipe.n_copies for recipe in blend) == 12


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


# ------------------------------------------------------------------------------------------------ styles


@pytest.mark.parametrize("style", [RANKS_AND_AXES, VALUES_AND_PLANES])
def test_rules_in_a_style_start_every_large_ensemble_in_that_style(style):
    rules = DEFAULT_RULES.in_style(style)
    assert rules.styles == (style,)
    assert rules.screened_style == style
    for n_rows in (100, 5000):
        recipes = rules.for_rows(n_rows)
        assert {recipe.start for recipe in (recipes.prune, recipes.small, recipes.large)} == {style.start}
        large = (recipes.prune, recipes.prune_stage, recipes.small, recipes.large)
        assert {recipe.variance_floor for recipe in large} == {style.variance_floor}
    changed = (".start", ".variance_floor")
    others = [
        name
        for name in rule_names(rules)
        if not any(one in name for one in changed) and not name.startswith(("style", "screened_style"))
    ]
    assert all(value_of(rules, name) == value_of(DEFAULT_RULES, name) for name in others)


def has_views(model):
    return bool(model.model_.encoder.curves.exists.any())


STYLES = pytest.mark.parametrize("styles", [(RANKS_AND_AXES, VALUES_AND_PLANES), (VALUES_AND_PLANES, RANKS_AND_AXES)])


def small_rules(styles, **changes):
    """Pruning from few rows on, by small and quick ensembles."""
    rules = replace_rule(replace_rule(DEFAULT_RULES, "pruning.needs_rows", 30), "pruning.start.n_trees", 10)
    return replace(rules, styles=styles, **changes)


def small_difference(n_rows=500):
    """Two columns of the same large values; their small difference is the target."""
    rng = np.random.default_rng(0)
    common, noise = rng.normal(size=(2, n_rows))
    X = np.column_stack([common, common + 0.2 * noise, rng.normal(size=(n_rows, 2))])
    return X, X[:, 1] - X[:, 0]


def steps_of_a_skewed_column(n_rows=500):
    """Steps at quantiles of a column with a few huge values."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=n_rows)
    X = np.column_stack([np.exp(4 * normal), rng.normal(size=(n_rows, 2))])
    return X, np.sin(4 * normal) + 0.05 * rng.normal(size=n_rows)


@STYLES
@pytest.mark.parametrize(("problem", "expected"), [(small_difference, False), (steps_of_a_skewed_column, True)])
def test_style_that_is_clearly_better_on_held_out_rows_is_taken(styles, problem, expected):
    X, y = problem()
    model = with_rules(SkinnyTreesRegressor, small_rules(styles))(validation_fraction=0.3, **QUICK).fit(X, y)
    assert has_views(model) == expected


@STYLES
def test_first_style_is_taken_within_noise_and_where_no_rows_are_held_out(styles):
    X, y = small_difference(120)
    in_noise = small_rules(styles, style_noise=1e9)
    model = with_rules(SkinnyTreesRegressor, in_noise)(validation_fraction=0.3, **QUICK).fit(X, y)
    assert has_views(model) == styles[0].views.ranks
    for evidence in ({"validation_fraction": None}, {"cv": 2}):
        model = with_rules(SkinnyTreesRegressor, small_rules(styles))(**evidence, **QUICK).fit(X, y)
        assert has_views(model) == styles[0].views.ranks


def test_styles_are_not_compared_where_the_first_ensemble_would_not_read_all_columns(monkeypatch):
    X, y = small_difference(120)
    rules = small_rules((RANKS_AND_AXES, VALUES_AND_PLANES))
    rules = replace_rule(replace_rule(rules, "pruning.starts_at", 3), "pruning.rows_per_group", np.inf)
    model = with_rules(SkinnyTreesRegressor, rules)(validation_fraction=0.3, **QUICK).fit(X, y)
    assert has_views(model)


def test_single_style_of_the_rules_is_the_style_of_the_fit():
    X, y = small_difference(120)
    linear = Style(Views.linear_only(), AxisAligned())
    model = with_rules(SkinnyTreesRegressor, small_rules((linear,)))(validation_fraction=0.3, **QUICK).fit(X, y)
    assert not has_views(model)


def test_ridge_of_screening_before_pruning_falls_with_the_rows():
    """Nothing was found of a sine times another column in 8,000 rows with the ridge that 1,600 rows need."""
    ridge = [DEFAULT_RULES.for_rows(n_rows).screen.l2 for n_rows in (500, 1600, 3200, 10**6)]
    np.testing.assert_allclose(ridge, [1.0, 1.0, 0.5, 0.1])
    stages = [DEFAULT_RULES.for_rows(n_rows).screen_stage.l2 for n_rows in (300, 3200)]
    np.testing.assert_allclose(stages, [0.1, 0.5])

"""The final ensemble: which ones are tried, which is taken, and the mean of several."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference import Ensemble, predict, random_data

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid
from skinnytrees.losses import SquaredError
from skinnytrees.optimizers import Constant, FixedSupportSGD
from skinnytrees.path.final import blends_to_try
from skinnytrees.path.rules import DEFAULT_RULES, Recipe, replace_rule
from skinnytrees.path.trainer import Trainer

from .helpers import random_problem, with_rules


def default_blends(n_rows, n_columns, **users_choices):
    return blends_to_try(DEFAULT_RULES.final, DEFAULT_RULES.for_rows(n_rows, **users_choices), n_rows, n_columns)


def test_users_choices_reach_the_final_ensemble():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(n_estimators=7, max_depth=3, max_epochs=2, random_state=0).fit(X, y)
    n_trees = model.model_.trees.n_trees
    assert n_trees in (14, 28), "the mean of two or four ensembles of seven"
    assert model.model_.trees.W.shape[1] == 7 * n_trees, "seven splits at depth three"
    blends = default_blends(100, 4, n_trees=7, depth=3, learning_rate=0.5, n_epochs=2, batch_size=9, l2=0.7)
    assert len(blends) == 2, "with rate and ridge chosen, there is one large ensemble beside the averaged ones"
    for recipe in itertools.chain(*blends):
        chosen = (recipe.n_trees, recipe.depth, recipe.learning_rate, recipe.n_epochs, recipe.batch_size, recipe.l2)
        assert chosen == (7, 3, 0.5, 2, 9, 0.7)


def test_large_ensembles_are_more_regularised_where_there_are_more_columns():
    few, many = (default_blends(5000, n_columns) for n_columns in (8, 160))
    for blends in (few, many):
        both, (light,), (strong,) = blends
        assert both == (light, strong)
        assert light.learning_rate >= strong.learning_rate
        assert light.l2 < strong.l2
    assert many[1][0].learning_rate < few[1][0].learning_rate
    assert many[2][0].l2 > few[2][0].l2
    assert default_blends(50, 60) == ((DEFAULT_RULES.for_rows(50).averaged,),), "more columns than rows"


@pytest.mark.parametrize("refit", [True, False])
def test_final_ensemble_is_strongly_regularised_where_a_lightly_regularised_one_would_follow_the_noise(refit):
    """A weak effect in each of many columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 40))
    y = X[:, :20].sum(axis=1) + 8 * rng.normal(size=1700)

    def fitted(*blends):
        rules = replace_rule(DEFAULT_RULES, "final.large_blends", blends)
        model = with_rules(SkinnyTreesRegressor, rules)(size_rule="full", max_epochs=10, refit=refit, random_state=0)
        return model.fit(X[:1000], y[:1000], X_val=X[1000:1300], y_val=y[1000:1300])

    chosen, light = fitted("mean", "light", "strong"), fitted("light")
    _, _, (strong,) = default_blends(1000, 40)
    assert chosen.model_.trees.n_trees == strong.n_copies * strong.n_trees, "not the mean of both"
    assert chosen.score(X[1300:], y[1300:]) > light.score(X[1300:], y[1300:]) + 0.05


@pytest.mark.parametrize(
    ("name", "value", "kinds"),
    [
        ("final.averaged_only_above_columns_per_row", 0.0, ["averaged"]),
        ("final.few_rows_below", 0, ["mean", "light", "strong"]),
        ("final.large_blends", ("strong", "mean"), ["averaged", "strong", "mean"]),
        ("final.noise", 1.0, ["averaged", "mean", "light", "strong"]),
    ],
)
def test_rules_say_which_final_ensembles_are_tried(name, value, kinds):
    rules = replace_rule(DEFAULT_RULES, name, value)
    recipes = rules.for_rows(500)
    light, strong = (
        blends_to_try(replace_rule(rules, "final.large_blends", (kind,)).final, recipes, 500, 30)[-1][0]
        for kind in ("light", "strong")
    )
    known = {"averaged": (recipes.averaged,), "mean": (light, strong), "light": (light,), "strong": (strong,)}
    assert blends_to_try(rules.final, recipes, 500, 30) == tuple(known[kind] for kind in kinds)


def test_without_held_out_rows_the_final_ensemble_is_the_mean_of_a_lightly_and_a_strongly_regularised_one():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(cv=3, max_epochs=2, random_state=0).fit(X, y)
    large = DEFAULT_RULES.for_rows(60).large
    assert model.model_.trees.n_trees == 2 * large.n_copies * large.n_trees


def test_averaged_copies_predict_the_mean_of_the_copies():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 40, 6, 2, rng, np.float32)
    trainer = Trainer(SquaredError(), Sigmoid())
    recipe = Recipe(
        n_trees=3, depth=2, learning_rate=0.1, l2=0.1, n_epochs=2, batch_size=8, optimizer=FixedSupportSGD(),
        schedule=Constant(),
    )  # fmt: skip
    whole, _ = trainer.start(data, 2, replace(recipe, n_copies=3), np.random.default_rng(1))
    stream = np.random.default_rng(1)
    copies = [trainer.start(data, 2, recipe, stream)[0] for _ in range(3)]
    mean = np.mean([predict(Ensemble.of(copy), data.X, Sigmoid()) for copy in copies], axis=0)
    np.testing.assert_allclose(predict(Ensemble.of(whole), data.X, Sigmoid()), mean, atol=1e-6)

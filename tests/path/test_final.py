"""The final ensemble: which ones are tried, which is taken, and the mean of several."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference import Ensemble, predict, random_data, random_trees
from sklearn.base import clone

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.state import Data
from skinnytrees.losses import SquaredError
from skinnytrees.optimizers import Adam, Constant, FixedSupportSGD
from skinnytrees.path.evidence import Judge
from skinnytrees.path.final import FinalChoice, Fold, Trial, blends_to_try, choose_final_ensemble, large_recipes
from skinnytrees.path.rules import DEFAULT_RULES, Recipe, replace_rule
from skinnytrees.path.styles import VALUES_AND_PLANES
from skinnytrees.path.trainer import Trainer, average
from skinnytrees.starts import Grown

from .helpers import make_judge, make_trainer, random_problem, with_rules


def default_blends(n_rows, n_columns, n_features=None, **users_choices):
    recipes, n_features = DEFAULT_RULES.for_rows(n_rows, **users_choices), n_features or n_columns
    return blends_to_try(DEFAULT_RULES.final, recipes, n_rows, n_columns, n_features)


def test_users_choices_reach_the_final_ensemble():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(n_estimators=7, max_depth=3, max_epochs=2, random_state=0).fit(X, y)
    assert model.model_.trees.n_trees == 7, "in all copies together"
    assert model.model_.trees.W.shape[1] == 7 * 7, "seven splits at depth three"
    choices = {"n_trees": 7, "depth": 3, "learning_rate": 0.5, "n_epochs": 2, "batch_size": 9, "l2": 0.7}
    on_few_rows, on_many_rows = default_blends(100, 4, **choices), default_blends(5000, 4, **choices)
    assert len(on_many_rows) == 1, "with rate and ridge chosen, there is one large ensemble"
    for recipe in itertools.chain(*on_few_rows, *on_many_rows):
        chosen = (recipe.depth, recipe.learning_rate, recipe.batch_size, recipe.l2)
        assert chosen == (3, 0.5, 9, 0.7)
        assert recipe.n_epochs == (0 if isinstance(recipe.start, Grown) else 2), "grown trees are not trained"
    for blend in (*on_few_rows, *on_many_rows):
        assert sum(recipe.n_trees * recipe.n_copies for recipe in blend) == 7


def test_large_ensembles_are_more_regularised_where_there_are_more_columns():
    rules = replace_rule(DEFAULT_RULES, "final.blends", ("mean", "light", "strong"))
    few, many = (blends_to_try(rules.final, rules.for_rows(5000), 5000, n_columns, n_columns) for n_columns in (8, 160))
    for blends in (few, many):
        both, (light,), (strong,) = blends
        assert both == (light, strong)
        assert light.learning_rate >= strong.learning_rate
        assert light.l2 < strong.l2
    assert many[1][0].learning_rate < few[1][0].learning_rate
    assert many[2][0].l2 > few[2][0].l2
    assert default_blends(50, 60) == ((DEFAULT_RULES.for_rows(50).averaged,),), "more features than rows"
    assert len(default_blends(50, 60, n_features=20)) > 1, "several views of one feature are no more features"


@pytest.mark.parametrize("refit", [True, False])
def test_final_ensemble_is_strongly_regularised_where_a_lightly_regularised_one_would_follow_the_noise(refit):
    """A weak effect in each of many columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 40))
    y = X[:, :20].sum(axis=1) + 8 * rng.normal(size=1700)

    def fitted(*blends):
        rules = replace_rule(replace_rule(DEFAULT_RULES, "final.blends", blends), "styles", (VALUES_AND_PLANES,))
        model = with_rules(SkinnyTreesRegressor, rules)(size_rule="full", max_epochs=10, refit=refit, random_state=0)
        return model.fit(X[:1000], y[:1000], X_val=X[1000:1300], y_val=y[1000:1300])

    chosen, light = fitted("mean", "light", "strong"), fitted("light")
    strong = large_recipes(DEFAULT_RULES.final, DEFAULT_RULES.for_rows(1000), 40)[1]
    assert chosen.model_.trees.n_trees == strong.n_copies * strong.n_trees, "not the mean of both"
    assert chosen.score(X[1300:], y[1300:]) > light.score(X[1300:], y[1300:]) + 0.05


def test_fit_on_fewer_rows_than_design_columns_stays_near_the_targets():
    """18 features of three design columns each on 48 rows: plain steps used to end at outputs of 1e9."""
    rng = np.random.default_rng(1)
    X = np.exp(rng.normal(size=(248, 18)))
    y = np.log(X[:, :5]).sum(axis=1) + 0.3 * rng.normal(size=248)
    model = SkinnyTreesRegressor(18, size_rule="full", random_state=0).fit(X[:48], y[:48])
    assert model.score(X[48:], y[48:]) > 0.4


@pytest.mark.parametrize("rate", [5.0, 1e3])
def test_training_that_ends_far_from_the_targets_is_repeated_with_smaller_steps(rate):
    """Outputs that grow without overflow are a divergence, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 60)).astype(np.float32)
    data = Data(X, X[:, :1].copy(), np.ones(40, dtype=np.float32))
    recipe = replace(DEFAULT_RULES.for_rows(40).averaged, n_copies=1, learning_rate=rate)
    trainer = make_trainer()
    trees, loss = trainer.start(data, recipe, rng)
    assert loss < 0.6, "half of the variance is the loss of a constant"
    assert trainer.row_losses(trees, data).mean() < 1


@pytest.mark.parametrize(
    ("name", "value", "kinds"),
    [
        ("final.averaged_only_above_features_per_row", 0.0, ["averaged"]),
        ("final.few_rows_below", 0, ["light and strong", "light", "strong"]),
        ("final.blends", ("strong",), ["small", "light"]),
        ("final.blends_on_few_rows", ("light", "mean"), ["light", "light and small"]),
    ],
)
def test_rules_say_which_final_ensembles_are_tried(name, value, kinds):
    rules = replace_rule(DEFAULT_RULES, "final.blends", ("mean", "light", "strong"))
    rules = replace_rule(rules, "final.blends_on_few_rows", ("strong", "light"))
    rules = replace_rule(replace_rule(rules, "final.few_rows_below", 501), name, value)
    recipes = rules.for_rows(500)
    light, strong = large_recipes(rules.final, recipes, 30)
    known = {"averaged": recipes.averaged, "light": light, "strong": strong, "small": recipes.small}
    expected = tuple(tuple(known[part] for part in kind.split(" and ")) for kind in kinds)
    assert blends_to_try(rules.final, recipes, 500, 30, 30) == expected


def test_without_rows_that_judge_the_preferred_final_ensemble_is_made():
    X, y = random_problem(0, 4, n_rows=60)
    rules = replace_rule(DEFAULT_RULES, "final.blends_on_few_rows", ("mean", "strong"))
    model = with_rules(SkinnyTreesRegressor, rules)(validation_fraction=None, max_epochs=2, random_state=0).fit(X, y)
    recipes = rules.for_rows(60)
    assert model.model_.trees.n_trees == sum(one.n_copies * one.n_trees for one in (recipes.large, recipes.small))
    assert np.isnan(model.path_.val_score).all()


# ------------------------------------------------------------------------------------------------ choice


GOOD = Recipe(
    n_trees=5, depth=2, learning_rate=0.1, l2=0.01, n_epochs=15, batch_size=16, optimizer=Adam(), schedule=Constant()
)
USELESS = replace(GOOD, learning_rate=1e-9, n_epochs=1)


def linear_folds(n_folds=3, n_rows=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    data = Data(X, X[:, :1].copy(), np.ones(n_rows, dtype=np.float32))
    fold = np.arange(n_rows) % max(n_folds, 3)
    return [Fold(*(Data(*(part[rows] for part in data)) for rows in (fold != i, fold == i))) for i in range(n_folds)]


@pytest.mark.parametrize("n_folds", [1, 3])
@pytest.mark.parametrize(("noise", "expected"), [(0.0, GOOD), (1.0, GOOD), (1e9, USELESS)])
def test_first_blend_is_taken_unless_another_is_better_by_more_than_the_noise(n_folds, noise, expected):
    folds, judge = linear_folds(n_folds), make_judge()
    choice = choose_final_ensemble(
        [Trial(folds, [(USELESS,), (GOOD,), (GOOD, USELESS)])], judge, noise, np.random.default_rng(0)
    )
    assert choice.blend == (expected,)
    assert len(choice.ensembles) == n_folds
    np.testing.assert_array_equal(choice.evidence.Y, np.concatenate([fold.judging.Y for fold in folds]))
    outputs = [judge.trainer.outputs(one, fold.judging.X) for one, fold in zip(choice.ensembles, folds, strict=True)]
    np.testing.assert_array_equal(choice.evidence.outputs, [np.concatenate(outputs)])
    assert choice.factor == judge.factor(choice.evidence, 0)


@pytest.mark.parametrize(("evidence", "expected"), [(2.0, GOOD), (1e9, USELESS)])
def test_blend_that_needs_evidence_is_taken_only_where_all_others_are_clearly_worse(evidence, expected):
    needy = replace(GOOD, evidence=evidence)
    choice = choose_final_ensemble(
        [Trial(linear_folds(), [(needy,), (USELESS, needy), (USELESS,)])], make_judge(), 0.0, np.random.default_rng(0)
    )
    assert choice.blend[0].learning_rate == expected.learning_rate
    alone = choose_final_ensemble(
        [Trial(linear_folds(), [(needy,), (GOOD,)])], make_judge(), 0.0, np.random.default_rng(0)
    )
    assert alone.blend == (GOOD,), "it is as good without"


def test_steps_that_trained_splits_would_smooth_are_learned_by_boosted_trees():
    """A chequered function of two columns, and a smooth one, on which the model stays smooth and small."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 2))
    stepped = np.floor(5 * X[:, 0]) % 2 + np.floor(3 * X[:, 1])
    smooth = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    trained = replace_rule(DEFAULT_RULES, "final.blends", ("mean", "light", "strong"))

    def fitted(rules, y):
        y = y + 0.1 * rng.normal(size=3000)
        return with_rules(SkinnyTreesRegressor, rules)(2, size_rule="full", random_state=0).fit(X[:2000], y[:2000])

    boosted, smoothed = fitted(DEFAULT_RULES, stepped), fitted(trained, stepped)
    assert boosted.score(X[2000:], stepped[2000:]) > 0.97 > 0.95 > smoothed.score(X[2000:], stepped[2000:])
    boosted_trees, large = DEFAULT_RULES.final.boosted.n_trees, DEFAULT_RULES.final.large
    assert boosted.model_.trees.n_trees >= boosted_trees
    assert fitted(DEFAULT_RULES, smooth).model_.trees.n_trees <= 2 * large.n_copies * large.n_trees


def test_without_folds_the_first_blend_is_taken_as_it_is():
    choice = choose_final_ensemble([Trial([], [(USELESS,), (GOOD,)])], make_judge(), 0.0, np.random.default_rng(0))
    assert choice == FinalChoice(0, (USELESS,))
    assert choice.factor == 1
    assert choice.evidence is None


def test_blend_of_another_trial_is_taken_where_it_is_better():
    folds = linear_folds()
    trials = [Trial(folds, [(USELESS,)]), Trial(folds, [(USELESS,), (GOOD,)])]
    choice = choose_final_ensemble(trials, make_judge(), 0.0, np.random.default_rng(0))
    assert (choice.trial, choice.blend) == (1, (GOOD,))


def test_linear_function_of_few_rows_is_learned_from_plain_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1120, 4))
    y = X @ [1.0, -1.0, 1.0, -1.0] + 0.1 * rng.normal(size=1120)
    model = SkinnyTreesRegressor(size_rule="full", random_state=0).fit(X[:120], y[:120])
    assert not model.model_.encoder.curves.exists.any(), "no ranks"
    assert model.score(X[120:], y[120:]) > 0.95


def test_recipe_in_several_blends_is_trained_once_per_fold(monkeypatch):
    trained, start_each = [], Trainer.start_each

    def record(trainer, data, recipes, rng):
        trained.extend(recipes)
        return start_each(trainer, data, recipes, rng)

    monkeypatch.setattr(Trainer, "start_each", record)
    blends = [(USELESS, GOOD), (GOOD,), (USELESS,)]
    choose_final_ensemble([Trial(linear_folds(2), blends)], make_judge(), 0.0, np.random.default_rng(0))
    assert trained == 2 * [USELESS, GOOD]


@pytest.mark.parametrize("refit", [True, False])
def test_final_model_is_as_sure_of_itself_as_the_rows_that_judge_allow(refit, monkeypatch):
    X, y = random_problem(0, 4, n_rows=80)
    model = SkinnyTreesRegressor(max_epochs=2, n_estimators=5, validation_fraction=0.3, refit=refit, random_state=0)
    monkeypatch.setattr(Judge, "factor", lambda *of: 1.0)
    plain = clone(model).fit(X, y)
    monkeypatch.setattr(Judge, "factor", lambda *of: 0.5)
    halved = clone(model).fit(X, y)
    np.testing.assert_array_equal(halved.support_, plain.support_)
    np.testing.assert_array_equal(halved.model_.trees.W, plain.model_.trees.W)
    np.testing.assert_allclose(halved.model_.trees.O, 0.5 * plain.model_.trees.O, rtol=1e-6)


# ------------------------------------------------------------------------------------------------ means of ensembles


def test_averaged_copies_predict_the_mean_of_the_copies():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 40, 6, 2, rng, np.float32)
    trainer = make_trainer(n_outputs=2)
    recipe = Recipe(
        n_trees=3, depth=2, learning_rate=0.1, l2=0.1, n_epochs=2, batch_size=8, optimizer=FixedSupportSGD(),
        schedule=Constant(),
    )  # fmt: skip
    whole, _ = trainer.start(data, replace(recipe, n_copies=3), np.random.default_rng(1))
    stream = np.random.default_rng(1)
    copies = [trainer.start(data, recipe, stream)[0] for _ in range(3)]
    mean = np.mean([predict(Ensemble.of(copy), data.X, Sigmoid()) for copy in copies], axis=0)
    np.testing.assert_allclose(predict(Ensemble.of(whole), data.X, Sigmoid()), mean, atol=1e-6)


@pytest.mark.parametrize("n_trees", [(2, 5), (1, 1, 7), (3,)])
def test_mean_of_ensembles_with_different_numbers_of_trees_counts_each_ensemble_once(n_trees):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)).astype(np.float32)
    ensembles = [random_trees(4, 2, rng, n_trees=n, depth=3, dtype=np.float32) for n in n_trees]
    expected = np.mean([predict(Ensemble.of(one), X, Sigmoid()) for one in ensembles], axis=0)
    together = average(ensembles)
    assert together.n_trees == sum(n_trees)
    np.testing.assert_allclose(predict(Ensemble.of(together), X, Sigmoid()), expected, atol=1e-5)
    np.testing.assert_allclose(make_trainer(n_outputs=2).outputs(together, X), expected, atol=1e-5)

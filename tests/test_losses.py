"""Losses against their definitions, and how they meet training: users' own losses, scaled targets."""

import numpy as np
import pytest
from reference import (
    LOSSES,
    central_differences,
    loss_and_gradient,
    random_data,
    random_targets,
    random_trees,
    single_columns,
)
from scipy.stats import multinomial, poisson
from sklearn.metrics import roc_auc_score

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.state import Data
from skinnytrees.losses import (
    REGRESSION_LOSSES,
    Huber,
    Multinomial,
    Poisson,
    Quantile,
    SquaredError,
    TargetScale,
    UserLoss,
    regression_loss,
)
from skinnytrees.training.loop import TrainingSettings, evaluate, train

EVERY = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES.values(), ids=LOSSES.keys())


@EVERY
def test_gradient_is_the_derivative_of_the_value(loss, n_outputs):
    rng = np.random.default_rng(1)
    y, raw = random_targets(loss, 50, n_outputs, rng), rng.normal(size=(50, n_outputs))
    if isinstance(loss, Quantile):
        raw = np.where(np.abs(raw - y) < 1e-3, y + 1e-3, raw)  # the derivative jumps where raw = y

    def total(flat):
        return loss.value(y, flat.reshape(raw.shape)).sum()

    difference = central_differences(total, raw.ravel(), h=1e-4).reshape(raw.shape)
    np.testing.assert_allclose(loss.gradient(y, raw), difference, rtol=1e-6, atol=1e-7)


@EVERY
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_value_and_gradient_are_those_of_the_formula(loss, n_outputs, dtype, rtol):
    rng = np.random.default_rng(2)
    y = random_targets(loss, 200, n_outputs, rng, dtype)
    raw = (3 * rng.normal(size=(200, n_outputs))).astype(dtype)
    value, gradient = loss_and_gradient(loss, raw.astype(np.float64), y.astype(np.float64))
    assert loss.value(y, raw).dtype == loss.gradient(y, raw).dtype == dtype
    np.testing.assert_allclose(loss.value(y, raw), value, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(loss.gradient(y, raw), gradient, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("loss", "y", "raw", "value", "gradient"),
    [
        (SquaredError(), [[1.0, 2.0]], [[3.0, 1.0]], [2.5], [[2.0, -1.0]]),
        (Huber(delta=2.0), [0.0, 0.0, 0.0], [1.0, 2.0, -5.0], [0.5, 2.0, 8.0], [1.0, 2.0, -2.0]),
        (Quantile(level=0.25), [4.0, 0.0], [0.0, 4.0], [1.0, 3.0], [-0.25, 0.75]),
        (Poisson(), [3.0, 0.0], [0.0, np.log(2.0)], [1.0, 2.0], [-2.0, 2.0]),
        (Multinomial(), [0, 1], [[0.0, 0.0], [0.0, np.log(3.0)]], np.log([2, 4 / 3]), [[-0.5, 0.5], [0.25, -0.25]]),
    ],
    ids=lambda case: getattr(case, "name", None),
)
def test_known_values(loss, y, raw, value, gradient):
    np.testing.assert_allclose(loss.value(y, raw), value)
    np.testing.assert_allclose(loss.gradient(y, raw), gradient)


def test_poisson_differs_from_the_log_likelihood_only_by_what_the_prediction_does_not_touch():
    y, raw = np.array([0.0, 1.0, 7.0]), np.linspace(-1, 2, 5)
    ours = [Poisson().value(y, np.full(3, r)) for r in raw]
    likelihood = [-poisson.logpmf(y, np.exp(r)) for r in raw]
    np.testing.assert_allclose(np.ptp(np.subtract(likelihood, ours), axis=0), 0, atol=1e-12)


def test_poisson_goes_on_as_its_tangent_above_the_ceiling_and_above_twice_the_count():
    y, raw = np.array([0.0, 3.0, 30.0, 3.0]), np.array([9.0, 50.0, 4.0, 1.0])
    at = np.log([10.0, 10.0, 60.0, 10.0])  # where the straight line begins
    exact = Poisson()
    tangent = exact.value(y, at) + exact.gradient(y, at) * (raw - at)
    bounded = Poisson(ceiling=10.0)
    np.testing.assert_allclose(bounded.value(y, raw), np.where(raw > at, tangent, exact.value(y, raw)))
    np.testing.assert_allclose(bounded.gradient(y, raw), exact.gradient(y, np.minimum(raw, at)))


def test_ceiling_of_counts_never_moves_the_minimiser():
    y = np.random.default_rng(0).poisson(2.0, size=(50, 1)).astype(float)
    bounded = Poisson().for_targets(y)
    assert bounded.ceiling == 2 * y.max()
    highest = np.full(50, np.log(y.max()))
    np.testing.assert_array_equal(bounded.gradient(y, highest), Poisson().gradient(y, highest))


def test_multinomial_is_the_log_likelihood_of_its_probabilities():
    raw = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 5.0]])
    labels = np.array([2, 0])
    chances = Multinomial().to_prediction(raw)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    likelihood = [-multinomial.logpmf(np.eye(3)[k], 1, p) for k, p in zip(labels, chances, strict=True)]
    np.testing.assert_allclose(Multinomial().value(labels, raw), likelihood)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multinomial_survives_huge_outputs(dtype):
    raw = np.array([[1e4, -1e4], [-1e4, 1e4]], dtype=dtype)
    np.testing.assert_allclose(Multinomial().value([0, 0], raw), [0, 2e4])
    np.testing.assert_allclose(Multinomial().gradient([0, 0], raw), [[0, 0], [-1, 1]])
    np.testing.assert_allclose(Multinomial().to_prediction(raw), [[1, 0], [0, 1]])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classes_are_ranked_by_the_area_under_the_curve(n_classes):
    rng = np.random.default_rng(5)
    y, weight = rng.integers(0, n_classes, (200, 1)).astype(np.float32), rng.integers(0, 3, 200).astype(float)
    raw = (rng.standard_normal((200, n_classes)) + (y == np.arange(n_classes))).astype(np.float32)
    P = Multinomial().to_prediction(raw)
    areas = [roc_auc_score(y[:, 0] == c, P[:, c], sample_weight=weight) for c in range(n_classes)]
    assert Multinomial().ranking(y, raw, weight) == pytest.approx(np.mean(areas))


def test_single_class_and_outputs_that_are_not_finite_cannot_be_ranked():
    y, weight = np.array([[0.0], [0.0], [1.0]], dtype=np.float32), np.array([1.0, 1.0, 0.0])
    raw = np.zeros((3, 2), dtype=np.float32)
    assert np.isnan(Multinomial().ranking(y, raw, weight))
    assert np.isnan(Multinomial().ranking(y, raw + np.float32(np.inf), np.ones(3)))


@pytest.mark.parametrize(
    "make", [SquaredError, Poisson, lambda: UserLoss(HalfSquares())], ids=["squares", "counts", "own"]
)
def test_numbers_are_not_ranked(make):
    assert np.isnan(make().ranking(np.ones((5, 1)), np.ones((5, 1)), np.ones(5)))


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantile_loss_is_least_at_the_quantile(level):
    y = np.random.default_rng(3).normal(size=201)
    candidates = np.append(y, np.linspace(-3, 3, 100))
    sums = [Quantile(level).value(y, np.full(201, c)).sum() for c in candidates]
    assert candidates[np.argmin(sums)] == pytest.approx(np.quantile(y, level))


@pytest.mark.parametrize("name", sorted(REGRESSION_LOSSES))
def test_one_dimensional_and_single_column_inputs_agree(name):
    loss = regression_loss(name)
    y, raw = np.array([1.0, 2.0, 0.0]), np.array([0.5, -0.2, 0.1])
    np.testing.assert_array_equal(loss.value(y, raw), loss.value(y[:, None], raw[:, None]))
    np.testing.assert_array_equal(loss.gradient(y, raw), loss.gradient(y[:, None], raw[:, None])[:, 0])


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_huber_without_a_positive_delta_is_refused(delta):
    with pytest.raises(ValueError, match=r"delta=.* must be a positive number"):
        Huber(delta)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 90, float("nan")])
def test_quantile_outside_zero_and_one_is_refused(level):
    with pytest.raises(ValueError, match=r"level=.* must lie between 0 and 1"):
        Quantile(level)


@pytest.mark.parametrize("y", [[[-1.0], [2.0]], [[0.0], [0.0]], [[1.0, 0.0], [2.0, 0.0]]])
def test_poisson_refuses_negative_counts_and_outputs_that_are_all_zero(y):
    with pytest.raises(ValueError, match="y >= 0 with a positive sum"):
        Poisson().check_target(np.array(y))


def test_unknown_loss_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"loss='mse' is not known.*squared_error"):
        regression_loss("mse")


@pytest.mark.parametrize("name", sorted(REGRESSION_LOSSES))
def test_loss_can_be_given_by_name_or_as_an_object(name):
    assert regression_loss(name) == REGRESSION_LOSSES[name]()
    assert regression_loss(regression_loss(name)) == REGRESSION_LOSSES[name]()


# ------------------------------------------------------------------------------------------------ users' losses


class HalfSquares:
    """Squared error as a user would write it."""

    def value(self, y, raw):
        return 0.5 * ((raw - y) ** 2).reshape(len(y), -1).sum(axis=1)

    def gradient(self, y, raw):
        return raw - y


def fit(loss, n_outputs=1, dtype=np.float32, validation=None):
    """Train a small ensemble; returns its weights and reports."""
    rng = np.random.default_rng(4)
    trees = random_trees(3, n_outputs, rng, dtype=dtype)
    data = random_data(SquaredError(), 40, 3, n_outputs, rng, dtype)
    settings = TrainingSettings(loss, Sigmoid(), n_epochs=5, batch_size=16, learning_rate=0.1, l2=0.1)
    reports = train(trees, data, single_columns(3), settings, rng, validation)
    return trees.flat, reports


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_users_squared_error_trains_the_same_trees_as_the_built_in_one(n_outputs, dtype):
    own, own_reports = fit(UserLoss(HalfSquares()), n_outputs, dtype)
    built_in, built_in_reports = fit(SquaredError(), n_outputs, dtype)
    np.testing.assert_array_equal(own, built_in)
    np.testing.assert_allclose([r.loss for r in own_reports], [r.loss for r in built_in_reports], rtol=1e-6)


@pytest.mark.parametrize("method", ["value", "gradient"])
def test_exception_in_a_users_loss_reaches_the_user(method):
    class Broken(HalfSquares):
        pass

    def fail(self, y, raw):
        raise LookupError("from the user's loss")

    setattr(Broken, method, fail)
    with pytest.raises(LookupError, match="from the user's loss"):
        fit(UserLoss(Broken()))


def test_exception_in_a_users_loss_on_validation_rows_reaches_the_user():
    class FailsOnValidation(HalfSquares):
        def value(self, y, raw):
            if len(y) == len(validation.X):
                raise LookupError("from the user's loss")
            return super().value(y, raw)

    validation = random_data(SquaredError(), 7, 3, 1, np.random.default_rng(0), np.float32)
    with pytest.raises(LookupError, match="from the user's loss"):
        fit(UserLoss(FailsOnValidation()), validation=validation)


def test_ctrl_c_within_a_users_loss_stops_training():
    class Interrupted(HalfSquares):
        calls = 0

        def gradient(self, y, raw):
            self.calls += 1
            if self.calls == 2:
                raise KeyboardInterrupt
            return super().gradient(y, raw)

    with pytest.raises(KeyboardInterrupt):
        fit(UserLoss(Interrupted()))


def test_users_gradient_of_the_wrong_shape_is_an_error():
    class OneGradientForAll(HalfSquares):
        def gradient(self, y, raw):
            return np.zeros(3)

    with pytest.raises(ValueError, match="was expected"):
        fit(UserLoss(OneGradientForAll()))


def test_users_loss_without_a_gradient_is_refused_before_training():
    class OnlyValue:
        value = HalfSquares.value

    with pytest.raises(TypeError, match=r"has no method gradient\(y, raw\)"):
        UserLoss(OnlyValue())


def test_users_loss_may_bring_its_own_link():
    class Exponential(HalfSquares):
        def to_prediction(self, raw):
            return np.exp(raw)

    assert UserLoss(Exponential()).to_prediction(np.zeros(2)).tolist() == [1, 1]
    assert UserLoss(HalfSquares()).to_prediction(np.zeros(2)).tolist() == [0, 0]


# ------------------------------------------------------------------------------------------------ target scale


@pytest.mark.parametrize(
    ("loss", "loss_on_own_scale", "factor"),
    [
        (SquaredError(), [SquaredError(), SquaredError()], [50.0, 0.1]),
        (Huber(delta=0.7), [Huber(delta=0.7 * 50.0), Huber(delta=0.7 * 0.1)], [50.0, 0.1]),
        (Quantile(level=0.8), [Quantile(level=0.8), Quantile(level=0.8)], [1.0, 1.0]),
        (Poisson(), [Poisson(), Poisson()], [1000.0, 2.0]),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_scaled_targets_have_the_same_best_outputs_as_the_targets_themselves(loss, loss_on_own_scale, factor):
    """The gradients on the two scales differ by a positive factor, so they vanish together."""
    mean, deviation = np.array([1000.0, 2.0]), np.array([50.0, 0.1])
    rng = np.random.default_rng(5)
    y, raw = mean + deviation * rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    scale = loss.target_scale(mean, deviation)
    scaled = loss.gradient((y - scale.shift) / scale.scale, raw)
    on_own_scale = scale.raw_scale * raw + scale.raw_shift
    for output in range(2):
        own = loss_on_own_scale[output].gradient(y[:, output], on_own_scale[:, output])
        np.testing.assert_allclose(own, factor[output] * scaled[:, output], rtol=1e-9)


@pytest.mark.parametrize("loss", [SquaredError(), Huber(), Poisson(), UserLoss(HalfSquares())])
def test_training_on_scaled_targets_gives_back_the_original_scale(loss):
    """Two distinct rows can be fitted exactly, so the predictions are known."""
    y = np.array([[1.0], [3.0]]) if isinstance(loss, UserLoss) else np.array([[1000.0], [1300.0]])
    scale = loss.target_scale(y.mean(axis=0), y.std(axis=0))
    X = np.array([[-1.0], [1.0]])
    trees = random_trees(1, 1, np.random.default_rng(6), n_trees=2, depth=1)
    settings = TrainingSettings(loss, Sigmoid(), n_epochs=3000, batch_size=2, learning_rate=0.3, l2=0.0)
    data = Data(X, (y - scale.shift) / scale.scale, np.ones(2))
    train(trees, data, single_columns(1), settings, np.random.default_rng(0))
    raw = scale.raw_scale * evaluate(trees, X, settings.functions(np.float64)) + scale.raw_shift
    np.testing.assert_allclose(loss.to_prediction(raw), y, rtol=1e-6)


def test_no_scale_leaves_targets_and_outputs_as_they_are():
    scale = TargetScale.none(2)
    y = np.array([[3.0, -1.0]])
    np.testing.assert_array_equal((y - scale.shift) / scale.scale, y)
    np.testing.assert_array_equal(scale.raw_scale * y + scale.raw_shift, y)

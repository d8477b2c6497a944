"""Algorithm 1 gives what a plain PyTorch program gives, which has autograd and none of our kernels."""

import numpy as np
import pytest
from reference import random_data, random_trees, single_columns

from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.kernels.state import Data, Trees
from skinnytrees.losses import Multinomial
from skinnytrees.penalties import GroupL0
from skinnytrees.training.loop import TrainingSettings, train

torch = pytest.importorskip("torch", minversion="2.4")
torch_port = pytest.importorskip("benchmarks.torch_port", reason="a source distribution has no benchmarks")

N_ROWS, N_COLUMNS = 70, 30
ROUNDING = {"float32": 5e-6, "float64": 1e-13}


@pytest.fixture(autouse=True)
def one_thread():
    """Torch's threads wait in busy loops: on a machine with other work, tiny steps would take a hundred times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def random_problem(dtype, n_outputs) -> tuple[Trees, Data]:
    """An ensemble whose groups are of very different norms, and rows in batches of 16 and a last one of 6."""
    rng = np.random.default_rng(3)
    data = random_data(Multinomial(), N_ROWS, N_COLUMNS, n_outputs, rng, dtype)
    trees = random_trees(N_COLUMNS, n_outputs, rng, n_trees=5, depth=3, dtype=dtype)
    trees.W[:] *= rng.uniform(0.05, 1.0, size=(N_COLUMNS, 1)).astype(dtype)
    return trees, data._replace(weight=np.ones(N_ROWS, dtype=dtype))


def train_both_and_compare(trees, data, activation, penalty) -> list[int]:
    """Train with the same batches on both sides; returns the number of features after every epoch."""
    settings = TrainingSettings(
        Multinomial(), activation, n_epochs=6, batch_size=16, learning_rate=0.1, l2=0.3, penalty=penalty
    )
    port = torch_port.SoftTrees(trees, activation)
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.Y[:, 0]).long()
    tuned = isinstance(activation, Sigmoid)  # both forms of the port take their turn
    theirs = torch_port.run_epochs(port, X, y, settings, np.random.default_rng(0), tuned)
    losses, n_features = zip(*theirs, strict=True)
    reports = train(trees, data, single_columns(N_COLUMNS), settings, np.random.default_rng(0))

    rounding = ROUNDING[str(trees.flat.dtype)]
    W, b, leaves = (part.detach().numpy() for part in (port.W, port.b, port.O))
    np.testing.assert_array_equal(trees.W.any(axis=1), W.any(axis=1))
    for ours, theirs in ((trees.W, W), (trees.b, b), (trees.O.T, leaves)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=rounding)
    np.testing.assert_allclose([report.loss for report in reports], losses, rtol=rounding)
    assert [report.n_features for report in reports] == list(n_features)
    return list(n_features)


@pytest.mark.parametrize("rate", [0.05, None], ids=["annealed", "constant"])
@pytest.mark.parametrize("n_outputs", [2, 4])
@pytest.mark.parametrize("activation", [Sigmoid(), Sigmoid(0.5), SmoothStep(), SmoothStep(2.0)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_die_where_they_die_in_pytorch_and_the_weights_agree(dtype, activation, n_outputs, rate):
    n_features = train_both_and_compare(*random_problem(dtype, n_outputs), activation, GroupL0(10.0, rate))
    assert 0 < n_features[-1] < N_COLUMNS


@pytest.mark.parametrize("penalty", [GroupL0(1e-2, 0.02), GroupL0(1e-3)], ids=["annealed", "constant"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeroed_groups_return_where_they_return_in_pytorch(dtype, penalty):
    trees, data = random_problem(dtype, 4)
    started_at_zero = slice(0, N_COLUMNS // 2)
    trees.W[started_at_zero] = 0
    train_both_and_compare(trees, data, Sigmoid(), penalty)
    assert 0 < trees.W[started_at_zero].any(axis=1).sum() < N_COLUMNS // 2

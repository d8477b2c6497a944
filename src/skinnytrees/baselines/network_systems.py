"""The neural systems by name."""

from skinnytrees.baselines.algnet import AlgNetClassifier, AlgNetRegressor
from skinnytrees.baselines.deep_lasso import DeepLassoClassifier, DeepLassoRegressor
from skinnytrees.baselines.dfs import DFSClassifier, DFSRegressor
from skinnytrees.baselines.lassonet import LassoNetClassifier, LassoNetRegressor
from skinnytrees.baselines.registry import System
from skinnytrees.baselines.stg import STGClassifier, STGRegressor

NETWORK_SYSTEMS = (
    System(
        "lassonet", LassoNetClassifier, LassoNetRegressor, "minutes", "network with a sparse linear skip layer, a path"
    ),
    System("algnet", AlgNetClassifier, AlgNetRegressor, "minutes", "tanh network with an adaptive group lasso, a path"),
    System(
        "dfs", DFSClassifier, DFSRegressor, "minutes", "network behind a weight per feature, exactly k of them not zero"
    ),
    System("stg", STGClassifier, STGRegressor, "seconds", "network behind stochastic gates, a path"),
    System(
        "deep_lasso", DeepLassoClassifier, DeepLassoRegressor, "seconds", "network ranked by penalised input gradients"
    ),
)

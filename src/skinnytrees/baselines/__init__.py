"""Systems that select features, behind one interface: those that the Skinny Trees paper compares with, and common others.

Each is a scikit-learn estimator with ``feature_budget``; ``SYSTEMS`` has all of them by name.
"""

from skinnytrees.baselines.algnet import AlgNetClassifier, AlgNetRegressor
from skinnytrees.baselines.best_subset import BestSubsetClassifier, BestSubsetRegressor
from skinnytrees.baselines.boruta import BorutaClassifier, BorutaRegressor
from skinnytrees.baselines.controlburn import ControlBurnClassifier, ControlBurnRegressor
from skinnytrees.baselines.deep_lasso import DeepLassoClassifier, DeepLassoRegressor
from skinnytrees.baselines.dfs import DFSClassifier, DFSRegressor
from skinnytrees.baselines.importance import (
    CatBoostImportanceClassifier,
    CatBoostImportanceRegressor,
    ExtraTreesImportanceClassifier,
    ExtraTreesImportanceRegressor,
    ForestImportanceClassifier,
    ForestImportanceRegressor,
    LightGBMImportanceClassifier,
    LightGBMImportanceRegressor,
    XGBoostImportanceClassifier,
    XGBoostImportanceRegressor,
)
from skinnytrees.baselines.l1_path import L1PathClassifier, L1PathRegressor
from skinnytrees.baselines.lassonet import LassoNetClassifier, LassoNetRegressor
from skinnytrees.baselines.mrmr import MRMRClassifier, MRMRRegressor
from skinnytrees.baselines.mutual_information import MutualInformationClassifier, MutualInformationRegressor
from skinnytrees.baselines.network_systems import NETWORK_SYSTEMS
from skinnytrees.baselines.permutation import PermutationClassifier, PermutationRegressor
from skinnytrees.baselines.registry import System, choose
from skinnytrees.baselines.relieff import ReliefFClassifier, ReliefFRegressor
from skinnytrees.baselines.rfe import RFEClassifier, RFERegressor
from skinnytrees.baselines.shap_ranking import ShapRankingClassifier, ShapRankingRegressor
from skinnytrees.baselines.soft_trees import (
    DenseSoftTreesClassifier,
    DenseSoftTreesRegressor,
    GroupLassoTreeClassifier,
    GroupLassoTreeRegressor,
    SkinnyTreeClassifier,
    SkinnyTreeRegressor,
)
from skinnytrees.baselines.stg import STGClassifier, STGRegressor
from skinnytrees.baselines.tao import TAOClassifier

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(
            "forest",
            ForestImportanceClassifier,
            ForestImportanceRegressor,
            "seconds",
            "Random forest on its features of largest importance",
        ),
        System(
            "extra_trees",
            ExtraTreesImportanceClassifier,
            ExtraTreesImportanceRegressor,
            "seconds",
            "Extremely randomised trees on their features of largest importance",
        ),
        System(
            "xgboost",
            XGBoostImportanceClassifier,
            XGBoostImportanceRegressor,
            "seconds",
            "XGBoost on its features of largest gain",
        ),
        System(
            "lightgbm",
            LightGBMImportanceClassifier,
            LightGBMImportanceRegressor,
            "seconds",
            "LightGBM on its features of largest gain",
        ),
        System(
            "catboost",
            CatBoostImportanceClassifier,
            CatBoostImportanceRegressor,
            "seconds",
            "CatBoost on its features of largest importance",
        ),
        System(
            "dense_soft_trees",
            DenseSoftTreesClassifier,
            DenseSoftTreesRegressor,
            "seconds",
            "Dense soft trees on their features of largest importance",
        ),
        System(
            "group_lasso_tree",
            GroupLassoTreeClassifier,
            GroupLassoTreeRegressor,
            "seconds",
            "One soft tree with the group lasso",
        ),
        System(
            "skinny_tree",
            SkinnyTreeClassifier,
            SkinnyTreeRegressor,
            "seconds",
            "One soft tree with the group l0-l2 penalty",
        ),
        System("tao", TAOClassifier, None, "minutes", "Oblique tree by alternating optimisation"),
        System(
            "controlburn",
            ControlBurnClassifier,
            ControlBurnRegressor,
            "seconds",
            "Bag-boosted forest thinned by a lasso over trees",
        ),
        System("rfe", RFEClassifier, RFERegressor, "seconds", "Recursive elimination by a forest"),
        System(
            "l1_path", L1PathClassifier, L1PathRegressor, "seconds", "l1 logistic regression or lasso along its path"
        ),
        System(
            "abess", BestSubsetClassifier, BestSubsetRegressor, "seconds", "Best subset of a linear model by splicing"
        ),
        System(
            "mrmr", MRMRClassifier, MRMRRegressor, "seconds", "Relevance divided by redundancy, one feature at a time"
        ),
        System(
            "mutual_information",
            MutualInformationClassifier,
            MutualInformationRegressor,
            "seconds",
            "Features of largest mutual information",
        ),
        System(
            "shap",
            ShapRankingClassifier,
            ShapRankingRegressor,
            "seconds",
            "XGBoost on its features of largest mean absolute Shapley value",
        ),
        System(
            "permutation",
            PermutationClassifier,
            PermutationRegressor,
            "minutes",
            "Features whose shuffling lowers the score of a forest most",
        ),
        System(
            "boruta",
            BorutaClassifier,
            BorutaRegressor,
            "minutes",
            "Features more important than shuffled copies in a forest",
        ),
        System(
            "relieff",
            ReliefFClassifier,
            ReliefFRegressor,
            "minutes",
            "Features that differ between near rows of different classes",
        ),
        *NETWORK_SYSTEMS,
    )
}


def available_systems(task: str | None = None, n_classes: int | None = None) -> dict[str, System]:
    """The systems that are installed, by name.

    Parameters
    ----------
    task : {"classification", "regression"} or None
        Only those that are defined for the task.
    n_classes : int or None
        Only those that take this many classes.

    Returns
    -------
    dict
        Name -> ``System``, whose ``classifier`` and ``regressor`` are the classes.

    Examples
    --------
    >>> from skinnytrees.baselines import available_systems
    >>> "controlburn" in available_systems("classification", n_classes=3)
    False
    >>> available_systems("regression")["forest"].regressor.__name__
    'ForestImportanceRegressor'
    """
    return choose(SYSTEMS, task, n_classes)


__all__ = [
    "SYSTEMS",
    "AlgNetClassifier",
    "AlgNetRegressor",
    "BestSubsetClassifier",
    "BestSubsetRegressor",
    "BorutaClassifier",
    "BorutaRegressor",
    "CatBoostImportanceClassifier",
    "CatBoostImportanceRegressor",
    "ControlBurnClassifier",
    "ControlBurnRegressor",
    "DFSClassifier",
    "DFSRegressor",
    "DeepLassoClassifier",
    "DeepLassoRegressor",
    "DenseSoftTreesClassifier",
    "DenseSoftTreesRegressor",
    "ExtraTreesImportanceClassifier",
    "ExtraTreesImportanceRegressor",
    "ForestImportanceClassifier",
    "ForestImportanceRegressor",
    "GroupLassoTreeClassifier",
    "GroupLassoTreeRegressor",
    "L1PathClassifier",
    "L1PathRegressor",
    "LassoNetClassifier",
    "LassoNetRegressor",
    "LightGBMImportanceClassifier",
    "LightGBMImportanceRegressor",
    "MRMRClassifier",
    "MRMRRegressor",
    "MutualInformationClassifier",
    "MutualInformationRegressor",
    "PermutationClassifier",
    "PermutationRegressor",
    "RFEClassifier",
    "RFERegressor",
    "ReliefFClassifier",
    "ReliefFRegressor",
    "STGClassifier",
    "STGRegressor",
    "ShapRankingClassifier",
    "ShapRankingRegressor",
    "SkinnyTreeClassifier",
    "SkinnyTreeRegressor",
    "System",
    "TAOClassifier",
    "XGBoostImportanceClassifier",
    "XGBoostImportanceRegressor",
    "available_systems",
]

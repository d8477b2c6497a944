"""Evidence: outputs of ensembles on rows that they were not trained on, and the comparison of ensembles by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.state import Data, Trees
from skinnytrees.losses import TargetScale
from skinnytrees.path.calibration import best_factor, effective_rows
from skinnytrees.path.comparison import Comparison, LossComparison, ScoreComparison
from skinnytrees.path.points import data_of
from skinnytrees.path.scoring import Scorer
from skinnytrees.path.trainer import Trainer
from skinnytrees.tables.groups import Groups


class Evidence(NamedTuple):
    """Raw outputs of several ensembles (ensembles, rows, outputs) on the same rows, with the rows' targets and weights."""

    outputs: NDArray[np.float32]
    Y: NDArray[np.float32]
    weight: NDArray[np.float64]

    @classmethod
    def join(cls, parts: Sequence["Evidence"]) -> "Evidence":
        """The rows of several folds, one after the other."""
        return cls(
            np.concatenate([part.outputs for part in parts], axis=1),
            np.concatenate([part.Y for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )

    def take(self, ensembles: Sequence[int] | NDArray[np.intp]) -> "Evidence":
        """The outputs of some of the ensembles."""
        return self._replace(outputs=self.outputs[np.asarray(ensembles, dtype=np.intp)])


@dataclass(frozen=True)
class Judge:
    """Compares ensembles by their outputs: by the loss after calibration, or by the user's scorer.

    Ensembles on many features are often over-confident on few rows although they rank rows better. Calibration removes this
    disadvantage from the comparison.
    """

    trainer: Trainer
    target: TargetScale
    scorer: Scorer | None = None

    def compare(self, evidence: Evidence) -> Comparison:
        """Comparison of the ensembles."""
        if self.scorer is None:
            return self.compare_losses(evidence)
        target = self.target
        outputs = self.calibrated(evidence).astype(np.float64) * target.raw_scale + target.raw_shift
        return ScoreComparison.learn(self.scorer, outputs, evidence.Y * target.scale + target.shift, evidence.weight)

    def compare_losses(self, evidence: Evidence) -> LossComparison:
        """Calibrated losses, whatever the scorer."""
        losses = [self.trainer.losses_of(output, evidence.Y) for output in self.calibrated(evidence)]
        return LossComparison(np.array(losses), evidence.weight)

    def calibrated(self, evidence: Evidence) -> NDArray[np.float32]:
        """The outputs of every ensemble after calibration on these rows."""
        factors = [self.factor(evidence, i) for i in range(len(evidence.outputs))]
        return evidence.outputs * np.array(factors, dtype=np.float32)[:, None, None]

    def factor(self, evidence: Evidence, i: int) -> float:
        """The factor of an ensemble's outputs that fits these rows best; one, where the loss is the user's own."""
        if not self.trainer.loss.can_be_calibrated:
            return 1.0
        output, weight = evidence.outputs[i], evidence.weight
        fraction = weight / weight.sum()

        def mean_loss(factor: float) -> float:
            return float(self.trainer.losses_of(output * np.float32(factor), evidence.Y) @ fraction)

        return best_factor(mean_loss, effective_rows(weight))

    def ranking(self, evidence: Evidence, i: int) -> float:
        """How well an ensemble ranks the rows; not a number where nothing is to be ranked."""
        return self.trainer.loss.ranking(evidence.Y, evidence.outputs[i], evidence.weight)

    def scores(self, evidence: Evidence) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Fraction of the loss between a constant and a perfect prediction that each explains; its standard error."""
        compared = self.compare_losses(evidence)
        perfect, constant = self.trainer.reference_losses(evidence.Y, evidence.weight)
        span = max(constant - perfect, np.finfo(float).tiny)
        with np.errstate(over="ignore"):  # where the targets are constant, or an ensemble's loss is next to infinite
            return 1 - (compared.mean - perfect) / span, compared.error() / span


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that the path's ensembles are measured on."""

    data: Data
    groups: Groups
    trainer: Trainer

    @property
    def weight(self) -> NDArray[np.float64]:
        """Weights of the rows."""
        return self.data.weight.astype(float)

    def outputs(self, groups: NDArray[np.intp], trees: Trees) -> NDArray[np.float32]:
        """Raw outputs of an ensemble on these groups."""
        return self.trainer.outputs(trees, data_of(self.data, self.groups.columns(groups)).X)

    def evidence(self, outputs: Sequence[NDArray[np.float32]]) -> Evidence:
        """Raw outputs of several ensembles on these rows."""
        return Evidence(np.array(outputs), self.data.Y, self.weight)

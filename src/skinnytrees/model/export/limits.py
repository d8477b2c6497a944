"""How large a model may be in the formats that hold every number as text."""

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export.portable import PortableModel

# About 12 bytes each: a source file of at most 6 MB, which compilers, browsers and databases still read in seconds.
MOST_NUMBERS = 500_000


def refuse_large(model: PortableModel, what: str) -> None:
    """Refuse a model of more numbers than a text file should hold."""
    refuse_unless(
        model.n_numbers <= MOST_NUMBERS,
        f"The model has {model.n_numbers:,} numbers ({len(model.inputs)} columns as {len(model.W)} design columns, "
        f"{model.n_trees} trees of {model.n_nodes} splits, {model.n_outputs} outputs); {what} can hold {MOST_NUMBERS:,}. Use "
        "ONNX, a smaller size of the path with at(n_features), or fit with a smaller n_estimators or max_depth.",
    )

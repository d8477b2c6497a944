"""Data sets of the paper, read from a folder that the user names, under the paper's splits; and data that is made up."""

from skinnytrees.datasets.published import PublishedData, available, data_folder, load
from skinnytrees.datasets.synthetic import SyntheticData, correlated_linear

__all__ = ["PublishedData", "SyntheticData", "available", "correlated_linear", "data_folder", "load"]

"""Data sets of the paper, read from a folder that the user names, and the splits under which it reports them."""

from skinnytrees.datasets.published import PublishedData, available, data_folder, load

__all__ = ["PublishedData", "available", "data_folder", "load"]

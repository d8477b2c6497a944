"""Fitted models in formats that other programs read: one description as plain data, one module per format."""

from skinnytrees.model.export.portable import PortableModel, describe
from skinnytrees.model.export.writing import FORMATS, export_model

__all__ = ["FORMATS", "PortableModel", "describe", "export_model"]

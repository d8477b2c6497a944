"""The only importer of private numba and llvmlite names."""

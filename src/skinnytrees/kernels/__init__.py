"""Compiled loops: free functions over arrays. They know nothing of estimators, penalties or Python objects."""

"""Pictures in the style of scikit-learn's displays."""

"""The small fitted model, the path that a fit leaves behind, and model files."""

"""What users bring becomes numbers: frames, categories, rows, groups, views and the encoding."""

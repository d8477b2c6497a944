"""One module for each table, figure or log of the paper that can be run again."""

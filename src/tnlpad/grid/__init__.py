"""Grids of runs: which runs a table needs, where they run, and how long they take."""

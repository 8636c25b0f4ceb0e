"""Figures of the paper that need more than the records of runs."""

"""Measurements, one file per question; see CONTRIBUTING.md."""

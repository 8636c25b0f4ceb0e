"""One training loop for every method: train, measure, record, resume."""

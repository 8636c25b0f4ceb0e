"""Which labels are wrong: from a run's scores of every sample to a ranked list, its exports and a page."""

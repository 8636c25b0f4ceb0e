"""Single runs: configuration, default settings, preparation, training and the resulting network."""

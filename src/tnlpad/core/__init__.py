"""The decomposition w = σ + γ as an optimizer."""

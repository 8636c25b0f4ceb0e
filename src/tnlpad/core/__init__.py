"""The decomposition w = σ + γ as an optimizer. Imports torch and nothing else of ours."""

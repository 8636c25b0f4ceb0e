"""The paper's computed figures: t-SNE of test features, and paths in parameter space."""

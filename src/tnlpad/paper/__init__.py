"""The paper's tables and figures: which runs they are made of, and the published numbers. Plain data."""

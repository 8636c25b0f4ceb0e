"""One training on several processes: who takes part, what each one computes, and what they exchange."""

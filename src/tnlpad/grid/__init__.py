"""Many runs: the grid and its executors, the plan of the paper's tables and figures, and the demo."""

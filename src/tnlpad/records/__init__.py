"""Run folders: what a training run leaves behind. Imports neither torch nor anything else of ours."""

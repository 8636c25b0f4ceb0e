"""Records that a training run leaves in its folder, without torch."""

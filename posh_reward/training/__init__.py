"""What a training run needs around its trainer: stopping, resuming, processors."""

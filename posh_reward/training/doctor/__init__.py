"""A dry run of a node: everything that a training run needs there."""

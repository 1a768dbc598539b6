"""Text -> parse -> clusters of mentions -> scene graph; ``reader`` is the whole stage."""

"""A small cross-encoder that reads whether a reference supports a sentence."""

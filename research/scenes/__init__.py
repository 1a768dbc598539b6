"""Scenes of known truth: what is true of an image, said twice, and what is not (README.md)."""

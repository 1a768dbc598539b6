"""Coreference by rules."""

"""Rows of files: reading them, scoring them, comparing models by them."""

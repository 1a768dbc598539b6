"""Audit of a reward: what passes though false, and what fails though honest."""

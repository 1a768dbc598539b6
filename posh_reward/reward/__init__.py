"""Scores -> rewards: what a trainer imports."""

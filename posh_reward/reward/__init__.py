"""Scores -> rewards for a trainer."""

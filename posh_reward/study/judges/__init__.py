"""Comparison of judges: what a trainer would notice if one replaced another."""

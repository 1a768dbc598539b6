"""What rewards pay for: one audit of each, one table."""

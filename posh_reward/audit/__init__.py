"""Look for texts that a reward overpays, and for references that are unfit."""

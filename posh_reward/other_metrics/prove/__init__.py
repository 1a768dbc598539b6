"""PROVE: helpful and truthful answers about images (paper: Trust but Verify)."""

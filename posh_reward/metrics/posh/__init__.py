"""POSH: how truthful and how complete a description is against a reference (paper, section 3)."""

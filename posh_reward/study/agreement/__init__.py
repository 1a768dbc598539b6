"""Agreement of metrics with people, by the paper's procedures (section 5, A.3)."""

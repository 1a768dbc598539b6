"""Compare judges, and distil a large one into a small one."""

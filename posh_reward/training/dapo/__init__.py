"""Parts of DAPO that TRL lacks: dynamic sampling and span credit."""

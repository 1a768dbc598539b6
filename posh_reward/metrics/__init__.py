"""Parts that all metrics share."""

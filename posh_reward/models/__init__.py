"""Language models: prompt -> distribution over labels, or text. Nothing here knows a metric."""

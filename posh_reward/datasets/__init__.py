"""Pictures with references: a dataset by name (``load``), and paintings drawn here (``scenes``)."""

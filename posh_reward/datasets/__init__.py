"""Pictures with references: a dataset by name (``load``), and paintings drawn here (``scenes``).

``image_files`` opens pictures, which are anybody's.
"""

"""Images with references: datasets by name (``load_dataset``), paintings drawn here (``scenes``).

``image_files`` opens images, which are anybody's.
"""

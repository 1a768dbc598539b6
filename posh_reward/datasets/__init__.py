"""Images with references: a dataset by name (``load``), and paintings drawn here (``scenes``).

``image_files`` opens images, which are anybody's.
"""

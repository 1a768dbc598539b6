"""Images with references: a dataset by name (``load_dataset``), and paintings drawn here
(``scenes``).

``image_files`` opens images, which are anybody's.
"""

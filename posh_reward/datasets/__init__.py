"""Images with references: datasets by name (``load_dataset``), drawn scenes (``scenes``).

``image_files`` opens untrusted images; ``copies`` makes local copies of datasets.
"""

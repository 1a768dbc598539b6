"""Images with references: datasets by name (``load_dataset``), drawn scenes (``scenes``).

``sources`` opens a path or a dataset on the hub, ``image_files`` untrusted images; ``copies``
resizes images once, and makes local copies.
"""

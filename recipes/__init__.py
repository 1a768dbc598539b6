"""One file, one run: copy a recipe and change it. Run them from the root of the checkout."""

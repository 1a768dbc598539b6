"""Judges of texts and witnesses of images: they answer POSH's questions."""

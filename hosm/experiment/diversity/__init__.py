"""Figures 7 and 8: which classes of images chains reach."""

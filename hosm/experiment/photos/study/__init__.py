"""Denoising of photographs that no model has seen, and what is said of the errors."""

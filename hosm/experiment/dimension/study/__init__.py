"""Surfaces of known dimension, the estimators that are compared, and the comparison."""

"""The samplers of images that are compared, and their names in tables and figures."""

__all__ = ["METHODS"]

METHODS = {"langevin": "Langevin", "ozaki": "Ozaki", "fixed": "fixed curvature"}

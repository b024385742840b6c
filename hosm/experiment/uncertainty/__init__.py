"""Figures 3 and 4: variance maps of a denoiser, their calibration, and directions."""

"""Diffusion in few steps: what the covariance of a step is worth, and likelihoods by the flow."""

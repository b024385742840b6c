"""What is measured of diffusion."""

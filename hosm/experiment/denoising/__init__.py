"""Figure 2: points in the plane, denoised, beside their exact posteriors."""

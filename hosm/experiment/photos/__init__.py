"""The denoiser of photographs: how good it is beside others, and how honest about its errors."""

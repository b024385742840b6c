"""Is this machine ready? Checks of this machine and of those that it reaches."""

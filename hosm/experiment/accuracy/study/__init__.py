"""What table 1 measures."""

"""What table 2 and its extensions measure."""

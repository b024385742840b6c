"""What table 3 and figures 5 and 6 measure."""

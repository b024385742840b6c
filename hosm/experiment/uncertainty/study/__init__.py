"""What figures 3 and 4 measure."""

"""What figures 7 and 8 measure."""

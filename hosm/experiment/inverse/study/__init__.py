"""What the study of linear inverse problems measures."""

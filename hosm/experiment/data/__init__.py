"""Data sets: drawn from exact laws, read from packages and files, or the user's own."""

"""Models by their settings, the tasks that train them, and their saved weights."""

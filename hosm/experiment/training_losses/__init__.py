"""How the losses of each model fell while it was trained: no claim, but what a reader checks."""

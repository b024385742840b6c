"""Figure 1: what variance reduction does to training as sigma goes to 0."""

"""Table 1: how accurate second-order scores are, beside autodiff of the first order."""

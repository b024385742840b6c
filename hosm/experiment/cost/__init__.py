"""Table 2: what second-order scores cost, in use and in training, and how that grows."""

"""Table 3 and figures 5 and 6: how fast samplers mix, at a stated bias."""

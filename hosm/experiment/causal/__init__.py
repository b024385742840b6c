"""The causal order and graph of simulated additive-noise models, beside SCORE and NoGAM.

`make causal` runs `study`, and keeps its tables in reports/whole/causal.
"""

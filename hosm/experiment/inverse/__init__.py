"""Linear inverse problems: posterior samples with a learned covariance beside others'."""

"""Tables of few rows: the estimator beside what a user would reach for."""

"""The experiment's side effects, one tool per module: settings, data, Ray, MLflow, pages."""

"""What surrounds the work of a stage: its frame, MLflow, provenance, files of jobs."""

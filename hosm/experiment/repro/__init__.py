"""What a reader sees while `dvc repro` runs: one line a stage, its progress, the time left."""

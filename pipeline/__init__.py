"""The stages of dvc.yaml, one file each."""

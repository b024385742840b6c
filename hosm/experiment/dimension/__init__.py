"""Local intrinsic dimension on public surfaces, beside the estimators of scikit-dimension.

`make dimension` runs `study`, and keeps its table in reports/whole/dimension.
"""

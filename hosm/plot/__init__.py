"""Displays of what estimators say, in scikit-learn's manner; they need the package matplotlib.

    hosm.plot.HessianDisplay.from_estimator(estimator, X)
    hosm.plot.OutlierDisplay.from_estimator(detector, X).figure_.savefig("outliers.png")

`from_estimator` computes what is shown, `from_predictions` takes it, both draw it, and `plot`
draws it again, into axes of yours if you give them (`ax=`). What was drawn is held by `ax_` and
`figure_`. `hessian` shows second derivatives, `variance_map` how sure a denoiser is of each pixel,
`reliability` whether variances are right, `chains` the way of samplers, and `outliers` the scores
of rows; `axes` has what the displays share. `pip install 'hosm[plot]'` brings matplotlib.
"""

from hosm.plot.chains import ChainsDisplay
from hosm.plot.hessian import HessianDisplay
from hosm.plot.outliers import OutlierDisplay
from hosm.plot.reliability import ReliabilityDisplay
from hosm.plot.variance_map import VarianceMapDisplay

__all__ = [
    "ChainsDisplay",
    "HessianDisplay",
    "OutlierDisplay",
    "ReliabilityDisplay",
    "VarianceMapDisplay",
]

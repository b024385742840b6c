"""
Outliers
========

Wines of two growers are known; those of a third are mixed into new ones. `hosm.OutlierDetector` is
an outlier detector of scikit-learn that judges a row by its scores: how long the gradient of the
log-density is there, and how the log-density is curved.
"""

# %%
# Learn what is usual
# -------------------
#
# `contamination` is the share of rows of the same law that will be called outliers.

import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import hosm

X, grower = load_wine(return_X_y=True, as_frame=True)
known, strangers = X[grower != 2], X[grower == 2]
train, test = train_test_split(known, test_size=0.3, random_state=0)
detector = hosm.OutlierDetector(contamination=0.05, random_state=0).fit(train)

# %%
# Judge new rows
# --------------

for name, rows in (("of the two growers", test), ("of the third", strangers)):
    share = np.mean(detector.predict(rows) == -1)
    print(f"{share:.0%} of {len(rows)} new wines {name} are called outliers")
scores = np.r_[detector.score_samples(test), detector.score_samples(strangers)]
truth = np.r_[np.ones(len(test)), np.zeros(len(strangers))]
print(f"area under the ROC curve {roc_auc_score(truth, scores):.3f}; .5 would be chance")

# %%
# Look at the scores
# ------------------
#
# Left of the dashed line lie the rows that are called outliers.

new = np.r_[test.to_numpy(), strangers.to_numpy()]
hosm.plot.OutlierDisplay.from_estimator(detector, new)

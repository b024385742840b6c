"""
A noisy photograph
==================

The denoiser that comes with the package takes pictures of any size. Beside the denoised picture it
says how far off each pixel is expected to be, and in which directions a part of it may be wrong.
"""

# %%
# Denoise
# -------
#
# Noise of 25 grey levels of 255 is added to a part of a photograph. The denoiser estimates it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import hosm

clean = load_sample_image("china.jpg").mean(2)[100:260, 180:420]
noisy = clean + 25 * np.random.default_rng(0).standard_normal(clean.shape)
found = hosm.PictureDenoiser.pretrained(channels=1).denoise(noisy)
found

# %%
# The three pictures beside each other, in the same grey levels:

figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
for ax, (name, page) in zip(
    axes, {"clean": clean, "noisy": noisy, "denoised": found.mean}.items(), strict=True
):
    shown = ax.imshow(page, cmap="gray", vmin=0, vmax=255)
    error = np.sqrt(np.mean((page - clean) ** 2))
    ax.set(xticks=[], yticks=[], title=f"{name}, error {error:.1f}")
figure.colorbar(shown, ax=axes, label="grey level", shrink=0.8)

# %%
# How sure it is
# --------------
#
# Left what was predicted without the clean picture, right the error that was made, in the same
# colours:

hosm.plot.VarianceMapDisplay.from_predictions(found, clean)

# %%
# Are the variances right?
# ------------------------
#
# The pixels are sorted by predicted variance into tenths. In each the mean squared error should be
# as large as predicted, which is the dashed line.

hosm.plot.ReliabilityDisplay.from_predictions(found.variance, (found.mean - clean) ** 2)

# %%
# Intervals
# ---------

low, high = found.interval(0.9)
print(
    f"intervals of 90 % hold {np.mean((clean >= low) & (clean <= high)):.1%} of the clean pixels"
)

# %%
# Directions
# ----------
#
# Errors of neighbouring pixels belong together. In a window of 32 x 32 pixels the leading
# directions of the covariance show how:

window = (60, 90, 32, 32)
values, directions = found.directions(window, 3)
figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
i, j, height, width = window
shown = axes[0].imshow(found.mean[i : i + height, j : j + width], cmap="gray")
figure.colorbar(shown, ax=axes[0], label="grey level", shrink=0.8)
for ax, value, direction in zip(axes[1:], values, directions, strict=True):
    top = np.abs(direction).max() * np.sqrt(value)
    shown = ax.imshow(np.sqrt(value) * direction, cmap="RdBu_r", vmin=-top, vmax=top)
    figure.colorbar(shown, ax=ax, label="one standard deviation", shrink=0.8)
for ax in axes:
    ax.set(xticks=[], yticks=[])

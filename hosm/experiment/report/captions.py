"""Captions of the figures, and what they show to those who cannot see them."""

__all__ = ["FIGURES"]

FIGURES = {  # figure -> caption, and what it shows to those who cannot see it
    "accuracy": (
        "Error of second-order scores by method and rank, on a logarithmic axis. Dotted lines: "
        "the least error that any matrix of the rank can have.",
        "Dot plot of the errors of table 1: a row for each method, a colour and marker for each "
        "rank, the paper's values as hollow diamonds.",
    ),
    "targets": (
        "Which target to use: error against seconds of training on one thread, mean over seeds. "
        "Curves of s2 begin where the s1 that they stand on is finished. Every point is of the "
        "weights as averaged then.",
        "A chart for each data set, both axes logarithmic, a line for each target and for "
        "autodiff; the floor of the rank and the constant Hessian as grey lines.",
    ),
    "whole": (
        "The same at the paper's sizes, every data set and regime. With few data (finite) a curve "
        "may rise again: what is kept is then the best by its validation loss, not the end.",
        "A chart for each data set and regime, both axes logarithmic, a line for each target and "
        "for autodiff; the floor of the rank and the constant Hessian as grey lines.",
    ),
    "reduction": (
        "Training on N(0, I) in the plane, a line for each seed. From top to bottom: distance of "
        "the second-order loss (moment) from its least value (a and b in the paper); squared "
        "error of s2, median over seeds, for each target, with that of s2 = 0 in grey; first "
        "entry of s1 (c) and of s2 (d) at (u, 0). With variance reduction σ makes no difference; "
        "without it the loss drowns in noise as σ falls.",
        "Four rows of charts, a column for each noise scale. Orange curves, without variance "
        "reduction, stay far from the least loss and from the exact scores at σ = 0.001 and "
        "approach them at 0.1; blue curves, with it, lie near the wide grey lines of the exact "
        "scores at every σ.",
    ),
    "speed": (
        "Time of second-order scores by method, on a logarithmic axis.",
        "Dot plot of the times of table 2, with a dashed line at the time of s1 and the paper's "
        "times as hollow diamonds.",
    ),
    "losses": (
        "Second-order losses with their gradients in s1, alpha and beta, for one sample: ours and "
        "as n dense matrices of D x D.",
        "Two charts on logarithmic axes, time and memory against D; dashed lines of the dense "
        "losses rise with the square of D, solid lines of ours in proportion to D.",
    ),
    "growth": (
        "Steps of training, and what is then asked of a model, against D. Batch and network are "
        "the same at every size.",
        "Two charts on logarithmic axes, time and memory against D, a line for each method, all "
        "about as steep as a line in proportion to D or less.",
    ),
    "tuning": (
        "Effective samples against bias for every step size that tuning tried. Filled points are "
        "within both bounds; those in the shade, or hollow, are biased: their ESS says little. "
        "Runs that diverged are not drawn.",
        "For each target a chart of the bulk effective sample size against the Kolmogorov "
        "distance to exact draws, a line for each sampler and kind of scores.",
    ),
    "curves": (
        "Distance to exact draws of all draws so far, tuned step sizes, against seconds of "
        "sampling on one thread. Adjusted steps need log p, which only exact scores come with.",
        "For each target a chart of the Kolmogorov distance against seconds, falling as draws "
        "accumulate, with the bias bound as a dotted line.",
    ),
    "equal-steps": (
        "Chains from N(0, 4 I) on the law of two modes, learned scores: the distance of where "
        "they are from the law, against iterations and against the time of the diffusion.",
        "Two charts: against iterations the curve of Ozaki on the paper’s clock falls first; "
        "against time all three curves lie on each other.",
    ),
    "step-bias": (
        "Chains that began with exact draws: how far the mean of −log p is off after twelve times "
        "v, against the step size. Bars are two standard errors.",
        "For each target a chart of the bias against the step size: Langevin’s rises along a line "
        "in proportion to it, the adjusted chain’s is zero within the bars.",
    ),
    "two-modes": (
        "The paper’s figure 6: where the chains of the figure above are after some iterations.",
        "Scatter plots in a grid: a row for each method, a column for each number of iterations.",
    ),
    "snapshots": (
        "The paper’s figure in appendix F: many chains from N(0, 4 I) at its step sizes and "
        "iterations, learned scores. As printed, Ozaki’s step diverges where the curvature is "
        "positive; with the guard it does not.",
        "Scatter plots in two rows, exact draws first, then each method and step size.",
    ),
    "single-chains": (
        "One chain of each method at the paper’s steps, 30,000 draws after 1,000 of burn-in, "
        "learned scores (its figure 5).",
        "Scatter plots in two rows, exact draws first: which modes one chain visits.",
    ),
    "plane": (
        "Points in the plane at σ = 0.15. From left to right: clean, noisy, the mean of the "
        "posterior alone, a draw of N(m, C) for each noisy point, and a draw of the exact "
        "posterior of the finite set. The mean alone thins the shapes out; draws restore them.",
        "Scatter plots in a grid, a row for each set of points: the draws of N(m, C) look like "
        "the clean points and like the exact posterior, the means are contracted.",
    ),
    "variance": (
        "Test images under noise of each scale: noisy, posterior mean, predicted variance of each "
        "pixel, squared error. The last two are averaged over the same noise draws and share one "
        "scale in each line, which ends at the 99.5th percentile.",
        "A line of images for each noise scale; predicted variance and measured squared error in "
        "colour, both brightest along the strokes, and wider as the noise grows.",
    ),
    "calibration": (
        "Measured squared error against the predicted variance, once scaled by one number fitted "
        "on validation images; pixels in tenths by their prediction. Bars: two standard errors, "
        "for independent images; one odd digit is a large part of the error of dark pixels.",
        "Two charts: error against variance along the diagonal over four decades, and their ratio "
        "by tenth with a grey band of 15 percent around one.",
    ),
    "directions": (
        "Eigenvectors 1 to 19, 30, 80 and 200 of the predicted covariance of two noisy images. "
        "Red and blue are opposite signs; each picture has its own colour scale.",
        "Grids of pictures: the first eigenvectors are smooth strokes along the digit's edges; "
        "beyond the rank of s2 they are single pixels.",
    ),
    "traversals": (
        "Steps of up to two standard deviations from the mean along the first three directions.",
        "Rows of digits: clean, noisy, then five images along each direction, whose strokes "
        "thicken, shift, open or close.",
    ),
    "classes": (
        "Share of chains from one test digit of each class whose denoised image has another class "
        "than the start: mean over the starts, with a band of one standard error. Left: the "
        "paper's comparison. Middle: the same runs against the time that the diffusion has run. "
        "Right: each method at its largest step within the bias bound, against time to compute.",
        "Three line charts of the share against iterations, diffusion time and seconds on "
        "logarithmic axes: at equal eps the curve of Ozaki lies above Langevin's, at equal time "
        "they lie together, and at the largest steps Ozaki leads.",
    ),
    "steps": (
        "The three parts of |x|² in chains from noisy test images, by the time that an iteration "
        "takes: the noise, what it has in common with the image, and the energy of the image. "
        "Bars: one standard error. The search accepts what lies within the band in all three.",
        "Three charts of a ratio against step size: Langevin's noise leaves the band upwards at "
        "small steps; the image of the fixed curvature leaves it downwards; the energy of Ozaki's "
        "images falls at large steps.",
    ),
    "noise": (
        "Chains that start at noise, denoised, two of each sampler with the same noise; numbers "
        "are iterations.",
        "Rows of pictures in which digits emerge from grey: later for Langevin and for Ozaki on "
        "its clock than for Ozaki on the paper's clock.",
    ),
    "chains": (
        "Chains from two test digits, each with noise of its own, denoised after the last "
        "iteration. In the corner the class that the classifier sees.",
        "Rows of digits, one row for each sampler: the first is the start, the others its chains, "
        "some of which have become other digits.",
    ),
    "explained": (
        "Share of the squared error of test images within the span of the first k directions, and "
        "the median time to find ten for an image; for more steps it is scaled from fewer.",
        "A line chart of the share against k: the directions of s2 lie close to those of subspace "
        "iteration, principal components of residuals far below.",
    ),
    "training": (
        "Losses against optimiser steps, and the step of the lowest first-order validation loss. "
        "Both omit constants, so their level means nothing; their course and the gap of the two "
        "lines do.",
        "Line charts, for each model its first-order above its second-order loss, training and "
        "validation as two lines.",
    ),
}

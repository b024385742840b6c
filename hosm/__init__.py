"""High-order scores by denoising.

Estimates first-, second- and higher-order gradients of a data distribution's
log-density from samples (Meng, Song, Li and Ermon, "Estimating High Order Gradients of
the Data Distribution by Denoising", NeurIPS 2021), and uses them.

Read the modules in this order: checks, laws, distributions, finite_data, energies, noise,
operands, operators, eigen, tweedie, networks, autodiff, scores, targets, objectives, tensors,
high_order, batches, settings, training, heads, checkpoints, uncertainty, proposals, samplers,
ess, metrics.
"""

__version__ = "0.1.0"

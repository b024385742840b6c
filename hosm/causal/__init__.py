"""Causal discovery: the order and the graph of variables of an additive-noise model.

`ordering` finds the order from the Hessian's diagonal of the log-density, `pruning` the graph, by
`regression` of each variable on those before it. Assumed are x_j = f_j(parents) + Gaussian noise,
no hidden common cause and no cycle; what is returned for other data has no such meaning.
"""

from hosm.causal.ordering import Order, order
from hosm.causal.pruning import graph

__all__ = ["Order", "graph", "order"]

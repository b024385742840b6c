"""Structured symmetric matrices and tensors, which never become D x D entries.

`diagonal_plus_low_rank` is the form of the second-order score, diag(alpha) + beta beta^T (Meng,
Song, Li and Ermon, NeurIPS 2021, section 4.3); `diagonal_plus_cp` is the same for any order.
`spectra` finds eigenpairs and functions of such a matrix, `inverses` its inverse and determinant;
`factor_products` evaluates, with their gradients, the products of a factor that the objectives
need.
"""

from hosm.operators.diagonal_plus_cp import DiagonalPlusCP
from hosm.operators.diagonal_plus_low_rank import DiagonalPlusLowRank
from hosm.operators.differentiable_products import Products, factor_image, factor_products
from hosm.operators.inverses import Inverse, positive_inverse
from hosm.operators.spectra import Structured, lanczos_function, leading_eigenvectors

__all__ = [
    "DiagonalPlusCP",
    "DiagonalPlusLowRank",
    "Inverse",
    "Products",
    "Structured",
    "factor_image",
    "factor_products",
    "lanczos_function",
    "leading_eigenvectors",
    "positive_inverse",
]

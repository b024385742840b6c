"""Digits at length: one U-Net of every noise scale, its bounds and draws, and inverse problems.

`make diffusion-digits` and `make inverse-digits` run `study`, and keep its tables in
reports/whole/diffusion-digits and reports/whole/inverse-digits; `pictures` draws what they kept.
"""

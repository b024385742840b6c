"""Graphs that are known, the orders that are compared, and the comparison."""

"""Encoders: inputs and configurations as the numbers that models learn from.

columns   inputs as columns that trees split on (generated code computes them too), and as points
configs   configurations as points of [0, 1]^axes, for Gaussian processes and forests
"""

"""Encoders: inputs and configurations as the numbers that models learn from.

parts     what the encoders are made of: one-hot words, logarithms of sizes, powers of two
columns   derived numbers of an input that trees split on; generated code computes them too
inputs    inputs as points on comparable scales, and which inputs are most alike
configs   configurations as points of [0, 1]^axes, for Gaussian processes and forests
"""

"""Measure on other machines: a driver decides and writes, workers build and measure.

On the driver:

address           the scheduler's address, and Dask
cluster           the workers of a cluster, the devices that they offer, and calls of them
measurers, late   measurers of the workers' devices, also of those that join during a campaign
remote            a measurer on a worker

On a worker:

serving           how it joins a cluster
offer             the devices that it offers
agent             what it does for a driver: it opens measurers of kernels or of a program

On both:

bundle            the user's files and space
"""

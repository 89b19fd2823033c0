"""Measure on other machines: a driver decides and writes, workers build and measure.

On the driver:

engine            Dask, and the scheduler's address
cluster           the workers of a cluster, and the devices that they offer
exchange          calls of a worker over a direct connection, several in one message
measurers, late   measurers of the workers' devices, also of those that join during a campaign
remote_device     a device of a worker, for the measurer of kernels, and builds on all workers
remote_programs   a measurer of programs on a worker

On a worker:

worker, serving   what it offers, and how it joins a cluster
agent, programs   what it does with a request, for kernels and for programs
held              the device that one driver uses at a time

On both:

messages, wire   what crosses the network: plain data, validated on arrival
bundle           the user's files, by content
"""

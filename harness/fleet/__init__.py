"""Measure on other machines: a driver decides and writes, workers build and measure.

scheduler   the scheduler's address, and how a worker serves it
cluster     on the driver: the workers of a cluster, what they offer, and calls of them
measurers   on the driver: measurers of their devices, also of those that join during a campaign
remote      on the driver: a measurer on a worker
agent       on a worker: what it offers, and does for a driver
bundle      the user's files and space, which travel
"""

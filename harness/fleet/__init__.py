"""Measure on other machines: a driver decides and writes, workers build and measure.

cluster         the workers of a Dask cluster, and what they offer
exchange        calls of a worker over a direct connection, several in one message
late            the devices of workers that join while a campaign runs
remote_device   a device of a worker, for the measurer on the driver
remote_builds   builds on all workers
agent           what a worker does with a request
messages, wire  what crosses the network: plain data, validated on arrival
bundle          the user's files, by content
"""

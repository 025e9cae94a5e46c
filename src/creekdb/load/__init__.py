"""Load generation for live clusters: workloads, connections, measurements, faults.

One process generates the load, with as little work per call as possible, so that the measurement
shows the cluster. It uses the protocol of ordinary clients (`creekdb.wire.messages`).
"""

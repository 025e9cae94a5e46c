"""Models of clients, cores, disks and the network."""

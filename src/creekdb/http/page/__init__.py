"""Live page of the cluster, served by any replica with an HTTP address.

- feed: state of one replica as the page shows it, several times a second
- routes: the page, its assets and its event stream
- fault_control: endpoint of `creek up` that injects faults for the page
- assets/: files for the browser

The page opens one event stream to each replica, so every column shows the state of that replica.
While no page is open, the feed is inactive.
"""

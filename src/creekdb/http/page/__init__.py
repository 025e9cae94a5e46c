"""A page that shows the cluster as it lives: served by any replica that speaks HTTP.

lives       what becomes of the operations that a replica has seen lately
feed        all that a page shows of one replica, a few times a second
paths       the page itself, and its stream
control     where pages of a trial ask `creek up` to break things, and to mend them
assets/     what the browser gets

A page opens one stream to each replica that it knows, so every column is that replica's own side
of the story. While no page is open, none of this does anything.
"""

"""HTTP for whoever does not speak Python: served by any replica, in its own event loop.

behind      what the gateway asks of a replica, and nothing more
replica     a live server, asked so
values      what operations take and answer, as JSON
shapes      annotations of operations as JSON Schema, and what does not fit them
operations  what there is to call, from the functions of a data type
calls       calls under way, and who follows them
problems    everything that can go wrong, each with its status
openapi     all of it described, for programs
limits      how much of everything there may be
asking      what a request asks for: its query, its headers, its body
app         the paths
serving     the socket
"""

from creekdb.http.server import HttpServer as HttpServer

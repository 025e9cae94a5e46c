"""HTTP interface of a replica, served in the event loop of the replica.

- server: listening socket and its lifecycle
- connections: limits of connections, and responses to malformed requests
- app: paths: authorisation, calls, event streams, state, status and metrics
- requests: limits, and the parsing of queries, headers and bodies
- responses: JSON, server-sent events and RFC 9457 problems
- operations: catalogue of the operations that clients can call
- schema: JSON encoding of values, and JSON Schema of annotations
- calls: calls in progress and their responses
- openapi: OpenAPI description of all paths
- backend: port to the replica, and its implementation by a live server
- page: live page of the cluster
"""

from creekdb.http.server import HttpServer as HttpServer

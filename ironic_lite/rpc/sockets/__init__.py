"""The two ends of a connection between API and conductor, without a broker.

`frames` defines the bytes on a connection. `sender` is the client's end; `listener` and `incoming`
are the server's. The driver of a transport knows the addresses of servers.
"""

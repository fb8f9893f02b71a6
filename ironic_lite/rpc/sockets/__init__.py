"""The two ends of a connection between API and conductor, without a broker.

`frames` defines the bytes on a connection. `client` and `server` are its two ends; `driver` joins
them for oslo.messaging. `local` and `direct` are the transports, which know the addresses.
"""

"""The remote engine: an engine of the store host, used from another process over the host's Unix socket.

`protocol` names the calls, `host` answers them, `engine` makes them. The host serves each of its engines under the
engine's name. A long poll is one call; a `Waiter` is registered in the host, which pushes its wake-ups. After a
reconnect, each waiter is registered again and woken once.
"""

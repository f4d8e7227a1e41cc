"""One module for each provider: what it sends us, what we send it. Pure: none of them opens a socket."""

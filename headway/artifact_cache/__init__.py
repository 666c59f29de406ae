"""The node's own store of artifacts: what releases on a pool are made of, there before a replica asks for it."""

"""Node pools: what a node is made of, and the node groups that make it."""

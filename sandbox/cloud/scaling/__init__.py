"""The Cluster Autoscaler of the sandbox: one turn as a pure function, and the process that lives by it."""

"""One model service: everything that a model contract becomes in a cluster. `component` registers it; all other
modules are pure.
"""

"""A tenant: a namespace with its quotas, isolation, identity and people. `component` registers it; all other modules
are pure.
"""

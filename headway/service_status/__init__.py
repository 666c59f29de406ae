"""What a model service is doing now, read from its cluster: replicas and why some are missing, the live route, promises,
and where to look next.
"""

"""The engine side of Pulumi's public gRPC protocols: an embedded, Pulumi-compatible subset."""

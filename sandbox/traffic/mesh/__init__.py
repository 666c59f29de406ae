"""The mesh in miniature: what istiod makes of VirtualServices and their kin, for one Envoy that is gateway and every
sidecar."""

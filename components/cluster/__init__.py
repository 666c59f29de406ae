"""The EKS cluster: control plane, add-ons."""

"""The VPC: address plan, subnets, ways out, endpoints."""

"""Draws the cluster's dashboards from the sandbox's Prometheus, because Grafana cannot be had here.

It reads the same ConfigMaps as Grafana's sidecar and draws what Headway's dashboards are made of: numbers and curves of PromQL.
Another kind of panel is refused by name; panels of Loki and Tempo say that the sandbox has neither.
"""

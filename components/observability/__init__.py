"""What the platform knows of itself: recorded signals, alerts, where they go, dashboards, and how much room it all
takes. Pure.
"""

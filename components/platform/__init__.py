"""What the platform layer defines itself, as native typed objects that policies can read. Add-ons are
`components.addons`.
"""

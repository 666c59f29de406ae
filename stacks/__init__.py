"""WHAT is deployed where: settings and one short program a layer."""

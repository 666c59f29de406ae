"""Platform add-ons: one Helm release a module, each with a pure builder of its values."""

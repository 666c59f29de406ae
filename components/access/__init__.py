"""Who may what in an environment: roles of people and CI, their boundaries and trust, from contracts and settings."""

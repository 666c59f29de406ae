"""What acts over time, and the vocabulary that everything else uses."""

VERSION = "0.1.0"

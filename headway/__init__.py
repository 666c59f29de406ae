"""What acts over time, and the vocabulary that everything else uses."""

"""A registry of one's own, filled from those of the makers: images by digest, charts as artifacts."""

"""From what hurts to its cause: symptoms, hypotheses as data, and one causal chain of measured comparisons."""

"""After the promotion, at work: asks the serving version what its contract labels, and writes down what follows."""

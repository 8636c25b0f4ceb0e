"""Turn samples into numbers: features of pretrained networks, and encoders of texts and tables."""

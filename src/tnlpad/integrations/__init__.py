"""The decomposition in other frameworks: scikit-learn, Lightning and the Hugging Face Trainer, one file each."""

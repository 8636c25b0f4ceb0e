"""The decomposition in other people's frameworks: scikit-learn, Lightning, the Hugging Face Trainer; one file each."""

"""The same model and training step in other libraries, each with its fastest settings."""

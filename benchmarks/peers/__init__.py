"""The same model and training step in other libraries, each at its best settings."""

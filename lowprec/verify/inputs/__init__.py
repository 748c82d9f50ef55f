"""The inputs that matter: where an implementation can go wrong."""

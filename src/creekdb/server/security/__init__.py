"""TLS, certificates and access tokens."""

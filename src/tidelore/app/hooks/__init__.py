"""Webhooks: receiving them in the service, and reading what they announce."""

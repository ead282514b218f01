"""Webhooks: receiving them in the service and in workers, and reading what they announce."""

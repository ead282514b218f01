"""Feedback: what people say on the pull requests we follow, as events that arrive once, and answers posted once."""

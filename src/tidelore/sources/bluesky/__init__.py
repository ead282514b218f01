"""Bluesky: the AppView's feeds, the repositories on the accounts' servers, and the event stream."""

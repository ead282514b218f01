"""Bluesky: the AppView's feeds, the repositories on the accounts' own servers, and the event stream."""

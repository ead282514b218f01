"""The console: a live dashboard on the terminal, for `lore console` and `lore top`.

Screens read the local database in background threads and change something only through the actions of `app`. They
must not send network requests.
"""

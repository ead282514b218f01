"""The web page of `lore serve`: pages over the use-cases of `app/`, rendered on the server."""

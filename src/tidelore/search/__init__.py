"""Search: from a query to the threads that match it. Imports the store and the embedders only."""

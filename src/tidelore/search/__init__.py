"""Search: find the threads that match a query. Imports only the store and the embedders."""

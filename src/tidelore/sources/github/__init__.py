"""GitHub: repositories, pull requests and their comments. Nothing is imported here."""

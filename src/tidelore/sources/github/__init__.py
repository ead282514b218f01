"""GitHub: repositories, pull requests and what is said about them. Nothing is imported here."""

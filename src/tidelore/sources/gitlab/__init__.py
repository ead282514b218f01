"""GitLab (REST v4 and GraphQL): client, payloads, their conversion to records, and the lists the engine reads."""

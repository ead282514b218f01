"""GitLab, REST v4 and GraphQL: client, payloads, their transformation, and the lists the engine reads."""

"""GitLab, REST v4: its client, its payloads, their transformation, and the surfaces the engine reads."""

"""The command line face: parses, calls, renders. No logic lives here."""

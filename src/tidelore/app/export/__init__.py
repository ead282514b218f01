"""Hand the copy to other programs: snapshots, metadata for Datasette, and rows of lists as files."""

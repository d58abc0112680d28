"""Every text a model reads, one Markdown file each, and their loader."""

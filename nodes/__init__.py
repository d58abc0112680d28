"""The graph's nodes: a file each, named like its node, with what middleware and commands share."""

"""The graph's nodes, one file each, named like its one public function."""

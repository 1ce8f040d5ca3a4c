"""People's own files: readers, and what a folder of files says about rows, labels and links."""

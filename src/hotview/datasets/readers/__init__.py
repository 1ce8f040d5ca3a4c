"""One module per kind of file that `read_views` reads."""

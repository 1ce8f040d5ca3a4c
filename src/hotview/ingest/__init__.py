"""Reading of users' own tables: columns, ids, labels, hold-out."""

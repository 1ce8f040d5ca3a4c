"""From people's own files to what the estimators take: columns, ids, labels."""

"""From raw rows to standardized ones: scan, impute, scale, reduce, compare."""

"""What people look at: tables and figures, made from arrays (nothing here knows torch)."""

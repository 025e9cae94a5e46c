"""What a user would pick instead, set up alike and driven by the same load."""

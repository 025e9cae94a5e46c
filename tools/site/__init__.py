"""The pages of the documentation that are made from the code.

A name that the pages show and that tells nothing of itself is an error: the site is not built.
"""

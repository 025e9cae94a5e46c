"""Pages of the documentation that are generated from the code.

A public name without a docstring is an error, and the site is not built.
"""

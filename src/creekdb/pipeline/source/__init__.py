"""Spark data source on live clusters: `format("creek")`."""

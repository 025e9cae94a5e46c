"""Server process: configuration, driver, executors, startup and maintenance tasks."""

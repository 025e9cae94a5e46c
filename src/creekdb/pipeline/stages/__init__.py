"""Stages of the pipeline, from a grid of experiments to verified result tables."""

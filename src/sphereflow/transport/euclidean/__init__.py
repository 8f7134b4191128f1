"""Schedules of ReLU perceptrons in R^d: exact flows, laws, constructions on the line and in space, errors."""

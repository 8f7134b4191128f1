"""Small files of what theories need to know about a real network: made by `record`, opened by `recording`."""

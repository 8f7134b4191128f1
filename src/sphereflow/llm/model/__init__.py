"""A language model and its texts: loading, where its attention lies, what is read while it runs."""

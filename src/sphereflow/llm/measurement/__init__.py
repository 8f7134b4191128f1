"""Every head of a model measured over documents: the record, sentences, pictures, a page."""

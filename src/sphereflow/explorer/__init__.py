"""A local web page: the sphere, live, with sliders."""

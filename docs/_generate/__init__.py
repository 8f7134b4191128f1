"""What the documentation takes from the code: claims, figures, commands, names, pictures, and code that is run."""

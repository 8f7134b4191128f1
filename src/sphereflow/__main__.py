"""`python -m sphereflow` is the command line."""

from sphereflow.cli import main

main()

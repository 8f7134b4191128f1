"""The run-time checker for annotations in tests: as in static typing, an int will do where a float is asked."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))

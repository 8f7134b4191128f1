"""The run-time checker for annotations in tests: as in static typing, an int will do where a float is asked.

A function is prepared when it is first called: most functions of the library are never called in one test process.
"""

from beartype import BeartypeConf, beartype

_prepare = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function):
    prepared = None

    def checked(*args, **kwargs):
        nonlocal prepared
        if prepared is None:
            prepared = _prepare(function)
        return prepared(*args, **kwargs)

    return checked

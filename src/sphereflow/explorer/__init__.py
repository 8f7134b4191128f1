"""A local web page: the sphere, live, with sliders."""

from sphereflow.explorer.server import DEFAULT_PORT as DEFAULT_PORT
from sphereflow.explorer.server import LOCAL as LOCAL
from sphereflow.explorer.server import serve as serve

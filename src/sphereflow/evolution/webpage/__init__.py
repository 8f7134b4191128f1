"""A run as one HTML file: the sphere to turn, time to move through, three charts; no server, no network."""

from sphereflow.evolution.webpage.frames import Camera as Camera
from sphereflow.evolution.webpage.frames import Recorder as Recorder
from sphereflow.evolution.webpage.frames import viewing_directions as viewing_directions
from sphereflow.evolution.webpage.page import PLAYER as PLAYER
from sphereflow.evolution.webpage.page import Player as Player
from sphereflow.evolution.webpage.page import assemble as assemble
from sphereflow.evolution.webpage.page import assemble_pair as assemble_pair
from sphereflow.evolution.webpage.page import page_of as page_of
from sphereflow.evolution.webpage.page import write_webpage as write_webpage
from sphereflow.evolution.webpage.shown import Shown as Shown
from sphereflow.evolution.webpage.shown import energy_or_order as energy_or_order
from sphereflow.evolution.webpage.shown import shown_of as shown_of

"""Pictures and movies of runs in one style, the figures of the field by name, and pages of runs for a web site."""

from sphereflow.figures.angles import angle_paths as angle_paths
from sphereflow.figures.exhibits.pages import write_gallery as write_gallery
from sphereflow.figures.exhibits.works import EXHIBITS as EXHIBITS
from sphereflow.figures.gallery import GALLERY as GALLERY
from sphereflow.figures.gallery import draw_named as draw_named
from sphereflow.figures.histograms import histogram as histogram
from sphereflow.figures.histograms import sphere_histogram as sphere_histogram
from sphereflow.figures.landscapes import landscape_movie as landscape_movie
from sphereflow.figures.landscapes import neurons_on_sphere as neurons_on_sphere
from sphereflow.figures.overlays import counts_against_beta as counts_against_beta
from sphereflow.figures.overlays import profiles as profiles
from sphereflow.figures.samples import samples_movie as samples_movie
from sphereflow.figures.views import movie as movie
from sphereflow.figures.views import snapshots as snapshots
from sphereflow.figures.views import tokens as tokens

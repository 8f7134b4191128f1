"""Run the papers' claims and show what came out: `reproduce` measures, a `Report` holds the results and its page."""

from sphereflow.report.reproduction import reproduce as reproduce
from sphereflow.report.results import ClaimResult as ClaimResult
from sphereflow.report.results import PaperResult as PaperResult
from sphereflow.report.results import PictureResult as PictureResult
from sphereflow.report.results import Report as Report

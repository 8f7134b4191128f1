"""Claims: what a paper says, what was measured, which rival hypotheses these data reject, and the verdict."""

from sphereflow.claims.check import FALSE_ALARM as FALSE_ALARM
from sphereflow.claims.check import VERDICTS as VERDICTS
from sphereflow.claims.check import Check as Check
from sphereflow.claims.check import Rival as Rival
from sphereflow.claims.check import Row as Row
from sphereflow.claims.check import Verdict as Verdict
from sphereflow.claims.check import margin as margin
from sphereflow.claims.paper import PRESETS as PRESETS
from sphereflow.claims.paper import Claim as Claim
from sphereflow.claims.paper import Figure as Figure
from sphereflow.claims.paper import Paper as Paper
from sphereflow.claims.paper import Preset as Preset
from sphereflow.claims.paper import Run as Run

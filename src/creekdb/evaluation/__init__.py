"""Evaluation: experiments that are built, run and measured.

    Experiment            the parameters that Section 6 of the paper varies, as one value
    EXTENSIONS            Creek's extensions beyond the paper, by name
    build_simulation      the simulation of a scenario, with its scheme, data type and clients
    measure               the measures of a run, as Section 6 defines them
    find_peak             the highest load that a system sustains
    violated_conditions   TPC-C's consistency conditions that do not hold at the end

The package does not depend on the command line or the pipeline, which define and run experiments.
"""

from creekdb.evaluation.experiment import Experiment as Experiment
from creekdb.evaluation.experiment import build_simulation as build_simulation
from creekdb.evaluation.experiment import datatype_of_history as datatype_of_history
from creekdb.evaluation.measures import Measures as Measures
from creekdb.evaluation.measures import SimulatedLatency as SimulatedLatency
from creekdb.evaluation.measures import measure as measure
from creekdb.evaluation.measures import violated_conditions as violated_conditions
from creekdb.evaluation.peak import PeakLoad as PeakLoad
from creekdb.evaluation.peak import find_peak as find_peak
from creekdb.protocol.extensions import EXTENSIONS as EXTENSIONS

"""Evaluating: experiments, put together, run and measured.

    Experiment            what Section 6 of the paper varies, as one value
    simulation_of         the simulation of a scenario, with its scheme, data type and clients
    measure               what a run measures, as Section 6 defines it
    find_peak             the highest load that a system keeps up with
    violated              TPC-C's consistency conditions that do not hold in the end

The room must not know how experiments are asked for, nor where they are run: that is for the
command line and for the pipeline.
"""

from creekdb.evaluation.experiment import Experiment as Experiment
from creekdb.evaluation.experiment import build_simulation as build_simulation
from creekdb.evaluation.experiment import datatype_of_history as datatype_of_history
from creekdb.evaluation.experiment import resolve_datatype as resolve_datatype
from creekdb.evaluation.measures import Measures as Measures
from creekdb.evaluation.measures import SimulatedLatency as SimulatedLatency
from creekdb.evaluation.measures import measure as measure
from creekdb.evaluation.measures import violated_conditions as violated_conditions
from creekdb.evaluation.peak import PeakLoad as PeakLoad
from creekdb.evaluation.peak import find_peak as find_peak

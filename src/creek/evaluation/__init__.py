"""Evaluating: experiments, put together, run and measured.

    Experiment            what Section 6 of the paper varies, as one value
    simulation_of         the simulation of a scenario, with its scheme, data type and clients
    measure               what a run measures, as Section 6 defines it
    find_peak             the highest load that a system keeps up with
    violated              TPC-C's consistency conditions that do not hold in the end

The room must not know how experiments are asked for, nor where they are run: that is for the
command line and for the pipeline.
"""

from creek.evaluation.assembly import datatype_named as datatype_named
from creek.evaluation.assembly import datatype_of as datatype_of
from creek.evaluation.assembly import simulation_of as simulation_of
from creek.evaluation.conditions import violated as violated
from creek.evaluation.experiment import Experiment as Experiment
from creek.evaluation.measures import Latency as Latency
from creek.evaluation.measures import Measures as Measures
from creek.evaluation.measures import measure as measure
from creek.evaluation.peak import Peak as Peak
from creek.evaluation.peak import find_peak as find_peak

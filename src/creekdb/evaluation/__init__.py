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
from creekdb.evaluation.experiment import datatype_named as datatype_named
from creekdb.evaluation.experiment import datatype_of as datatype_of
from creekdb.evaluation.experiment import simulation_of as simulation_of
from creekdb.evaluation.measures import Latency as Latency
from creekdb.evaluation.measures import Measures as Measures
from creekdb.evaluation.measures import measure as measure
from creekdb.evaluation.measures import violated as violated
from creekdb.evaluation.peak import Peak as Peak
from creekdb.evaluation.peak import find_peak as find_peak

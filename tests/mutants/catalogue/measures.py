"""Mutants of measures: evaluation, recorded histories, loads, and the pipeline with its report."""

from tests.mutants.catalogue import MutantWithTests, tested

MEASURES = "evaluation/measures.py"
MEASURE_TESTS = "tests/unit/evaluation/test_measures.py"
PEAK = "evaluation/peak.py"
PEAK_TESTS = "tests/unit/evaluation/test_peak.py"
EXPERIMENT = "evaluation/experiment.py"
EXPERIMENT_TESTS = "tests/unit/evaluation/test_experiment.py"
EXTENSIONS = "protocol/extensions.py"
EXTENSION_TESTS = "tests/unit/protocol/test_extensions.py"
BEYOND = "pipeline/report/beyond.py"
BEYOND_TESTS = "tests/pipeline/test_report_beyond.py"
PERCENTILES = "history/percentiles.py"
RUN_DIRECTORY = "history/run_directory.py"
RUN_DIRECTORY_TESTS = "tests/unit/history/test_run_directory.py"
LOAD_MEASUREMENT = "load/measurement.py"
LOAD_MEASUREMENT_TESTS = "tests/unit/load/test_measurement.py"
LOAD_WORKLOAD = "load/workload.py"
LOAD_WORKLOAD_TESTS = "tests/unit/load/test_workload.py"
CLAIMS = "pipeline/report/claims.py"
EVIDENCE_TESTS = "tests/pipeline/test_report_evidence.py"
FORMATTING = "pipeline/report/formatting.py"
FORMATTING_TESTS = "tests/pipeline/test_report_formatting.py"
GRID = "pipeline/stages/grid.py"
GRID_TESTS = "tests/pipeline/test_grid.py"
PIPELINE_MEASURE = "pipeline/stages/measure.py"
CONFIDENCE_TESTS = "tests/pipeline/test_confidence.py"
SPARK_MEASURE_TESTS = "tests/pipeline/test_measure.py"
EQUAL_MEASURES_TEST = f"{SPARK_MEASURE_TESTS}::test_measures_equal_those_of_the_evaluation"
VERDICT_NAMES = "pipeline/checks/verdict_names.py"
WORST_VERDICT_TEST = "tests/pipeline/test_verify.py::test_the_worst_of_two_verdicts_counts"
RELATIONAL = "pipeline/checks/relational.py"
RELATIONAL_TESTS = "tests/pipeline/test_relational_rules.py"
SUMMARY_TEST = f"{SPARK_MEASURE_TESTS}::test_a_summary_has_means_and_confidence_intervals"

MUTANTS: tuple[MutantWithTests, ...] = (
    # --- evaluation, history and load -----------------------------------------------------------
    tested(
        "throughput_includes_the_warm_up",
        "throughput counts responses in the measurement window",
        MEASURE_TESTS,
        MEASURES,
        "completed = bisect_right(completed_us, window.end_us) - begin",
        "completed = bisect_right(completed_us, window.end_us)",
    ),
    tested(
        "latencies_include_the_warm_up",
        "operations of the warm-up are not measured",
        MEASURE_TESTS,
        MEASURES,
        "if each.invoked_us >= window.begin_us]",
        "if each.invoked_us >= 0]",
    ),
    tested(
        "saturation_ignores_a_growing_backlog",
        "a system whose backlog grows is saturated",
        MEASURE_TESTS,
        MEASURES,
        "return throughput_tps < SATURATION_SHARE * issued_tps or grows",
        "return throughput_tps < SATURATION_SHARE * issued_tps",
    ),
    tested(
        "accuracy_ignores_errors",
        "a response that became an error was not accurate",
        MEASURE_TESTS,
        MEASURES,
        "return first.error == last.error and is_same_value(",
        "return is_same_value(",
    ),
    tested(
        "strong_operations_complete_with_a_tentative_response",
        "a strong operation is complete with its stable response",
        MEASURE_TESTS,
        MEASURES,
        "    if not record.strong:\n        return record.responses",
        "    if record.responses:\n        return record.responses",
    ),
    tested(
        "peak_search_stops_early",
        "the peak is found with the stated precision",
        PEAK_TESTS,
        PEAK,
        "while high / low > 1 + PEAK_PRECISION:",
        "while high / low > 1 + 10 * PEAK_PRECISION:",
    ),
    tested(
        "peak_is_the_saturating_load",
        "the peak is the throughput at a load that did not saturate the system",
        PEAK_TESTS,
        PEAK,
        "    best = tried[low]\n",
        "    best = tried[high]\n",
    ),
    tested(
        "percentile_is_one_rank_too_high",
        "a percentile is the least value that so many do not exceed",
        "tests/unit/history/test_percentiles.py",
        PERCENTILES,
        "-(-percent * len(ordered) // 100) - 1)",
        "min(len(ordered) - 1, -(-percent * len(ordered) // 100)))",
    ),
    tested(
        "run_is_overwritten",
        "a run directory is never overwritten",
        RUN_DIRECTORY_TESTS,
        RUN_DIRECTORY,
        "    if path.exists() and not (path.is_dir() and not any(path.iterdir())):",
        "    if path.is_file():",
    ),
    tested(
        "run_of_another_schema_is_read",
        "a run of another schema version is rejected",
        RUN_DIRECTORY_TESTS,
        RUN_DIRECTORY,
        "    if version != SCHEMA_VERSION:",
        "    if version > SCHEMA_VERSION:",
    ),
    tested(
        "load_counts_responses_after_the_end",
        "a response after the end is not counted",
        LOAD_MEASUREMENT_TESTS,
        LOAD_MEASUREMENT,
        "        if not begin_ns <= now_ns <= self.end_ns:",
        "        if not begin_ns <= now_ns:",
    ),
    tested(
        "load_measures_calls_of_the_warm_up",
        "a latency counts if the call was sent after the warm-up",
        LOAD_MEASUREMENT_TESTS,
        LOAD_MEASUREMENT,
        "        if begin_ns <= sent_ns:\n",
        "        if begin_ns <= now_ns:\n",
    ),
    tested(
        "load_counts_strong_calls_twice",
        "a strong call completes with its stable response",
        LOAD_MEASUREMENT_TESTS,
        LOAD_MEASUREMENT,
        "        elif kind == STRONG_STABLE:",
        "        elif kind in (STRONG_TENTATIVE, STRONG_STABLE):",
    ),
    tested(
        "load_reads_too_rarely",
        "the share of reads is the requested one",
        LOAD_WORKLOAD_TESTS,
        LOAD_WORKLOAD,
        "if reads and random() < reads:",
        "if reads and random() < reads * reads:",
    ),
    tested(
        "load_ignores_the_share_of_strong_transactions",
        "the share of strong transactions is the requested one",
        LOAD_WORKLOAD_TESTS,
        LOAD_WORKLOAD,
        "transaction.is_strong if strong is None else random.random() < strong",
        "transaction.is_strong",
    ),
    # --- pipeline -------------------------------------------------------------------------------
    tested(
        "claim_accepts_values_above_its_band",
        "a value above the band differs from the paper",
        EVIDENCE_TESTS,
        CLAIMS,
        "if band.low <= round(result.low, digits) and round(result.high, digits) <= band.high:",
        "if band.low <= round(result.low, digits):",
    ),
    tested(
        "claim_holds_without_a_measurement",
        "a statement without a measured value is not confirmed",
        EVIDENCE_TESTS,
        CLAIMS,
        "    if result is None:\n        return ClaimStatus.NOT_MEASURED\n    band",
        "    if result is None:\n        return ClaimStatus.HOLDS\n    band",
    ),
    tested(
        "claim_is_decided_by_a_possible_range",
        "a possible range that overlaps the band leaves the claim undecided",
        EVIDENCE_TESTS,
        CLAIMS,
        "return ClaimStatus.NOT_MEASURED if overlaps else ClaimStatus.DIFFERS",
        "return ClaimStatus.DIFFERS",
    ),
    tested(
        "peak_is_bounded_by_a_load_that_is_not_sustained",
        "a saturated system works at its capacity, which is below its load",
        EVIDENCE_TESTS,
        "pipeline/report/evidence.py",
        "has_collapsed = saturated_tps < SATURATION_SHARE * peak_tps",
        "has_collapsed = True",
    ),
    tested(
        "share_is_rounded_up_to_100_percent",
        "a share below 1 is never shown as 100 %",
        FORMATTING_TESTS,
        FORMATTING,
        '    if text == "100.0%" and value < 1:',
        '    if text == "100.0%" and value < 0:',
    ),
    tested(
        "grid_runs_equal_experiments_twice",
        "equal experiments of a grid run once",
        GRID_TESTS,
        GRID,
        "distinct = tuple(dict.fromkeys(experiments))",
        "distinct = tuple(experiments)",
    ),
    tested(
        "grid_accepts_an_empty_window",
        "the warm-up is shorter than the duration",
        GRID_TESTS,
        GRID,
        "    if not warm_up_us < duration_us:",
        "    if not warm_up_us <= duration_us:",
    ),
    tested(
        "grid_names_ignore_the_number_of_cores",
        "experiments that differ have different names",
        GRID_TESTS,
        GRID,
        '    "cores": "c{}".format,\n',
        "",
    ),
    tested(
        "confidence_interval_ignores_degrees",
        "a quantile of Student's t depends on the degrees of freedom",
        CONFIDENCE_TESTS,
        PIPELINE_MEASURE,
        "term *= cos(angle) ** 2 * (power + 1) / (power + 2)",
        "term *= cos(angle) ** 2 * power / (power + 1)",
    ),
    tested(
        "confidence_interval_is_one_sided",
        "the interval is that of the stated level",
        CONFIDENCE_TESTS,
        PIPELINE_MEASURE,
        "CONFIDENCE_LEVEL = 0.95",
        "CONFIDENCE_LEVEL = 0.90",
    ),
    tested(
        "summary_divides_by_the_seeds",
        "the variance of a sample is divided by the degrees of freedom",
        SUMMARY_TEST,
        PIPELINE_MEASURE,
        'F.sqrt(_sum("squares") / degrees / F.col("seeds"))',
        'F.sqrt(_sum("squares") / F.col("seeds") / F.col("seeds"))',
    ),
    tested(
        "pipeline_throughput_includes_the_warm_up",
        "the pipeline counts responses in the measurement window",
        EQUAL_MEASURES_TEST,
        PIPELINE_MEASURE,
        'in_window = F.col("done_us").between(F.col("begin_us"), F.col("end_us"))',
        'in_window = F.col("done_us") <= F.col("end_us")',
    ),
    tested(
        "relational_committed_once_accepts_conflicts",
        "every replica has the request of an operation at its commit position",
        RELATIONAL_TESTS,
        RELATIONAL,
        "agreed.where(committed_order.CONFLICTING)",
        'agreed.where("false")',
    ),
    tested(
        "merged_unknown_outranks_illegal",
        "the worst of two verdicts counts",
        WORST_VERDICT_TEST,
        VERDICT_NAMES,
        "(OK, UNKNOWN, ILLEGAL)",
        "(OK, ILLEGAL, UNKNOWN)",
    ),
    tested(
        "relational_unknown_outranks_illegal",
        "an illegal part makes the verdict illegal",
        RELATIONAL_TESTS,
        RELATIONAL,
        'F.min(F.struct("verdict",',
        'F.max(F.struct("verdict",',
    ),
    tested(
        "relational_session_order_forgives_lost_weak_requests",
        "a weak request is not lost in the middle of a session",
        RELATIONAL_TESTS,
        RELATIONAL,
        '"least(weak_event, lost_event) < event"',
        '"weak_event < event"',
    ),
    tested(
        "relational_committed_once_accepts_missing_requests",
        "a request with a final response is committed",
        RELATIONAL_TESTS,
        RELATIONAL,
        '"coalesce(stable_us, final_us) is not null",',
        '"false",',
    ),
    # --- extensions beyond the paper ------------------------------------------------------------
    tested(
        "extensions_have_the_defaults_of_the_protocol",
        "an experiment sets every extension, so that the paper's grids do not depend on defaults",
        EXPERIMENT_TESTS,
        EXPERIMENT,
        'for name in ("local_reads", *EXTENSIONS)}',
        'for name in ("local_reads", *self.extensions)}',
    ),
    tested(
        "command_omits_the_extensions",
        "the command of an experiment repeats its run",
        EXPERIMENT_TESTS,
        EXPERIMENT,
        "        if self.extensions:\n            parts.append",
        "        if not self.extensions:\n            parts.append",
    ),
    tested(
        "other_schemes_are_labelled_with_extensions",
        "schemes without extensions ignore their settings",
        EXTENSION_TESTS,
        EXTENSIONS,
        "    if not has_extensions(scheme):\n        return ()\n",
        "",
    ),
    tested(
        "stepwise_omits_the_first_step",
        "stepwise begins without extensions",
        EXTENSION_TESTS,
        EXTENSIONS,
        "[names[:count] for count in range(len(names) + 1)]",
        "[names[:count] for count in range(1, len(names) + 1)]",
    ),
    tested(
        "extended_line_repeats_that_of_the_paper",
        "the further line of a figure shows the runs with extensions",
        BEYOND_TESTS,
        "pipeline/report/charts/curves.py",
        "measure.format(line.measure), **line.overrides)",
        "measure.format(line.measure))",
    ),
    tested(
        "contributions_include_saturated_loads",
        "latencies are compared below saturation",
        BEYOND_TESTS,
        BEYOND,
        "if load_tps <= limit_tps)",
        "if load_tps)",
    ),
    tested(
        "apologies_are_accurate_responses",
        "an apology follows a first response that was not final",
        BEYOND_TESTS,
        BEYOND,
        "APOLOGIES_PER * (1 - accuracy)",
        "APOLOGIES_PER * accuracy",
    ),
    tested(
        "bar_is_judged_by_one_seed",
        "a bar is judged by the mean over three seeds",
        BEYOND_TESTS,
        "pipeline/report/bars.py",
        "measured.seeds >= SEEDS",
        "measured.seeds >= 1",
    ),
    tested(
        "an_extension_is_on_by_default",
        "with all extensions off, every run has the trace hash of the paper's Creek",
        "tests/simulation/test_trace_hashes.py",
        "protocol/settings.py",
        "    fast_path: int = 0\n",
        "    fast_path: int = 1\n",
    ),
    tested(
        "extensions_have_no_probe_to_fire",
        "a campaign with extensions fires the probes of these extensions",
        "tests/unit/cli/commands/test_fuzz.py",
        "cli/commands/fuzz.py",
        "    names = [name for name, value in overrides.switches.items() if value]\n    return",
        "    names: list[str] = []\n    return",
    ),
    tested(
        "estimates_delay_no_execution",
        "estimates lower the number of executions",
        "tests/simulation/test_extension_gains.py",
        "schemes/core/versioned.py",
        "if with_estimates and settings.parallelism > 1:",
        "if with_estimates and settings.parallelism < 1:",
    ),
    tested(
        "apologies_for_responses_that_archie_withheld",
        "only a response that a client has received can be wrong",
        BEYOND_TESTS,
        BEYOND,
        "withheld = self.of_responses and not",
        "withheld = not self.of_responses and not",
    ),
    tested(
        "regions_have_no_distance",
        "messages between regions take their distance longer",
        "tests/unit/simulation/models/test_network.py",
        "simulation/models/network.py",
        "model.latency_us_min + model.distance_us(sender, receiver)",
        "model.latency_us_min",
    ),
    tested(
        "distance_of_the_opposite_direction",
        "a distance is that from the sender to the receiver",
        "tests/unit/simulation/models/test_network.py",
        "simulation/models/parameters.py",
        "[sender % regions][receiver % regions]",
        "[receiver % regions][sender % regions]",
    ),
    tested(
        "skew_exceeds_its_bound",
        "clocks differ by the skew at most",
        "tests/unit/simulation/models/test_parameters.py",
        "simulation/models/parameters.py",
        "skew_us * index // (replicas - 1)",
        "skew_us * index // max(1, replicas - 2)",
    ),
)

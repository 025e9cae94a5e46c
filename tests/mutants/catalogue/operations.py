"""Mutants of applications: digests of operations, mistakes of users, and ends of lines."""

from tests.mutants.catalogue import MutantWithTests, tested

DIGEST = "execution/operation_digest.py"
DIGEST_TESTS = "tests/unit/execution/test_operation_digest.py"
CAPABILITIES = "server/calls/capabilities.py"
CAPABILITY_TESTS = "tests/unit/server/calls/test_capabilities.py"

MUTANTS: tuple[MutantWithTests, ...] = (
    tested(
        "digest_ignores_used_functions",
        "the digest of an operation covers the functions that it uses",
        DIGEST_TESTS,
        DIGEST,
        "        for reference in dict.fromkeys(_references(statement)):",
        "        for reference in ():",
    ),
    tested(
        "digest_ignores_modules_of_the_directory",
        "the digest covers functions from modules of the same directory",
        DIGEST_TESTS,
        DIGEST,
        "        elif name in source.imports:",
        "        elif False:",
    ),
    tested(
        "digest_covers_annotations",
        "annotations do not change a digest",
        DIGEST_TESTS,
        DIGEST,
        'frozenset(("annotation", ',
        "frozenset((",
    ),
    tested(
        "digest_ignores_constants",
        "the digest covers the values of constants",
        DIGEST_TESTS,
        DIGEST,
        "                self._add_value(values.get(name))",
        "                pass",
    ),
    tested(
        "digest_ignores_the_step_limit",
        "the digest covers the step limit of the data type",
        DIGEST_TESTS,
        DIGEST,
        " steps={datatype.steps}",
        "",
    ),
    tested(
        "unknown_code_differs",
        "a peer that reports no digests has no different code",
        CAPABILITY_TESTS,
        CAPABILITIES,
        "theirs.get(name, NO_DIGEST) not in (digest, NO_DIGEST)",
        "theirs.get(name, NO_DIGEST) != digest",
    ),
    tested(
        "upgraded_peer_still_differs",
        "a peer that was restarted with equal code has no different code",
        CAPABILITY_TESTS,
        CAPABILITIES,
        "        self.differing_by_peer.pop(replica, None)\n",
        "",
    ),
    tested(
        "different_code_is_always_rejected",
        "different code rejects calls only if equal operations are required",
        CAPABILITY_TESTS,
        CAPABILITIES,
        "if not self._require_equal_operations and replica not in self.other_engines:",
        "if False:",
    ),
    tested(
        "other_engines_are_admitted",
        "a replica with another SQL engine has other code, whatever the option says",
        CAPABILITY_TESTS,
        CAPABILITIES,
        "if not self._require_equal_operations and replica not in self.other_engines:",
        "if not self._require_equal_operations:",
    ),
    tested(
        "different_code_is_never_rejected",
        "required equality rejects the calls of an operation with different code",
        "tests/docs/test_change_operation.py::test_a_change_in_place_is_rejected_by_option",
        "server/calls/admission_control.py",
        "        replica = capabilities.find_differing(name, connected)",
        "        replica = None",
    ),
    tested(
        "different_code_is_logged_again",
        "different code is logged at its begin and its end only",
        "tests/unit/wire/test_event_log.py",
        "server/observability/status.py",
        "            self._differing[peer] = names\n",
        "",
    ),
    tested(
        "wrong_paths_are_disk_errors",
        "a wrong path is a usage error",
        "tests/unit/cli/test_app_exit_codes.py",
        "cli/app.py",
        "return USAGE_ERROR if isinstance(error, WRONG_PATH_ERRORS) else IO_ERROR",
        "return IO_ERROR",
    ),
    tested(
        "cluster_ends_before_its_last_replica",
        "a cluster is found by the port of any replica",
        "tests/unit/cli/test_dev_cluster.py",
        "cli/dev_cluster.py",
        "port < first + read_control(other).replicas",
        "port < first + read_control(other).replicas - 1",
    ),
    tested(
        "labels_overlap",
        "labels of lines do not overlap",
        "tests/pipeline/test_report_labels.py",
        "pipeline/report/charts/plots.py",
        "                down = max(down, other_down + END_LABEL_GAP_PX)",
        "                pass",
    ),
    tested(
        "unsaturated_lines_are_not_explained",
        "the report names lines that end before saturation",
        "tests/pipeline/test_report_labels.py",
        "pipeline/report/figures.py",
        "if unsaturated := len(loads.keys() - saturated):",
        "if unsaturated := len(loads.keys() & saturated):",
    ),
)

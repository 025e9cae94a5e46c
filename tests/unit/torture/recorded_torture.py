"""A recorded torture, one round per verdict."""

from creekdb.checkers import Verdict
from creekdb.torture.campaign import SecondSample, TortureResult
from creekdb.torture.faults.nemesis import InjectedFault
from creekdb.torture.faults.plan import FaultKind
from creekdb.torture.round import RoundResult


def recorded_torture(*verdicts: Verdict, failures: tuple[str, ...] = ()) -> TortureResult:
    rounds = tuple(
        RoundResult(
            number=number,
            replicas=3,
            begin_s=60.0 * number,
            faults_end_s=60.0 * number + 40,
            end_s=60.0 * number + 50,
            faults=(
                InjectedFault(FaultKind.KILL, "1", 60.0 * number + 5, 60.0 * number + 8),
                InjectedFault(
                    FaultKind.PARTITION,
                    "0, 2 from the others",
                    60.0 * number + 6,
                    60.0 * number + 9,
                ),
            ),
            calls=100,
            failures=failures,
            verdicts=(verdict,),
        )
        for number, verdict in enumerate(verdicts)
    )
    samples = tuple(
        SecondSample(
            second=second,
            weak=20,
            strong=10,
            failed=second % 2,
            weak_p50_ms=1.0,
            weak_p99_ms=5.0,
            strong_p50_ms=None if second == 7 else 10.0,
            strong_p99_ms=None if second == 7 else 900.0,
        )
        for second in range(3, 40)
    )
    return TortureResult(
        datatype="a<b:c",
        seed=7,
        command="creek torture --seed 7",
        duration_s=60.0 * len(verdicts),
        rounds=rounds,
        samples=samples,
    )

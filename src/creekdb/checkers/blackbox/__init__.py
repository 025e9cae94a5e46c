"""Black-box checkers: they judge what clients observed, and trust no record of a replica.

run = ObservedRun(datatype="kv", calls=read_calls(Path("calls.jsonl")))
for verdict, picture in judge(run, get_model("kv")):
    print(verdict.describe())
"""

from creekdb.checkers.blackbox.history_files.json_lines import encode_calls as encode_calls
from creekdb.checkers.blackbox.history_files.reader import read_calls as read_calls
from creekdb.checkers.blackbox.linearizability.checker import STEPS_MAX as STEPS_MAX
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE as ANY_VALUE
from creekdb.checkers.blackbox.linearizability.models import IMPOSSIBLE as IMPOSSIBLE
from creekdb.checkers.blackbox.linearizability.models import KeyRange as KeyRange
from creekdb.checkers.blackbox.linearizability.models import Model as Model
from creekdb.checkers.blackbox.linearizability.models import NotModelled as NotModelled
from creekdb.checkers.blackbox.linearizability.models import UnknownOperation as UnknownOperation
from creekdb.checkers.blackbox.linearizability.models import datatype_model as datatype_model
from creekdb.checkers.blackbox.linearizability.models import step_of as step_of
from creekdb.checkers.blackbox.linearizability.plain_models import MODELS as MODELS
from creekdb.checkers.blackbox.linearizability.plain_models import get_model as get_model
from creekdb.checkers.blackbox.observations import CallStatus as CallStatus
from creekdb.checkers.blackbox.observations import FinalObservation as FinalObservation
from creekdb.checkers.blackbox.observations import ObservedCall as ObservedCall
from creekdb.checkers.blackbox.observations import ObservedRun as ObservedRun
from creekdb.checkers.blackbox.registry import Judgement as Judgement
from creekdb.checkers.blackbox.registry import judge as judge

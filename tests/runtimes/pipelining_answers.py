"""The pipeline schedules of torch.distributed.pipelining: the order of each
rank's tasks, the order with sends and receives, the length of a step in the
visualizer, and the activation slots of each rank."""

import contextlib
import hashlib
import io
from unittest import mock

from torch.distributed.pipelining import _schedule_visualizer, schedules
from torch.distributed.pipelining.stage import PipelineStage

import records

# Our name, torch's class, and the virtual stages that are tried.
SCHEDULES = [
    ("gpipe", "GPipe", (1,)), ("1f1b", "1F1B", (1,)),
    ("interleaved", "Interleaved1F1B", (1, 2, 3)),
    ("looped-bfs", "LoopedBFS", (1, 2, 3)),
    ("zb-h1", "InterleavedZeroBubble", (1,)),
    ("interleaved-zb", "InterleavedZeroBubble", (1, 2, 3)),
    ("zbv", "ZBVZeroBubble", (2,)), ("dualpipev", "DualPipeV", (2,))]
RANKS = (2, 4, 8)
COMPUTE = {"F", "B", "I", "W", "OVERLAP_F_B"}


def digest(row):
    """The first 16 digits of a row's SHA-256, its cells joined by commas."""
    text = ",".join(map(str, row))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made(name, ranks, virtual, microbatches):
    """The schedule's object, as torch's visualizer makes it."""
    kind = schedules.get_schedule_class(name)
    stage = mock.create_autospec(PipelineStage, instance=True)
    stage.group_rank, stage.group_size, stage.submod = 0, ranks, None
    stage.num_stages = virtual * ranks
    single = issubclass(kind, schedules.PipelineScheduleSingle)
    return kind(stage if single else [stage] * virtual, microbatches)


def computed(row):
    return [a for a in row if a is not None
            and a.computation_type.value in COMPUTE]


def length(rows):
    """The ticks of a step: those of the longest row of the visualizer, whose
    rows hold a cell a tick, but one cell for an action of several ticks."""
    widths = _schedule_visualizer.action_type_to_color_mapping
    with contextlib.redirect_stdout(io.StringIO()):
        spaced = _schedule_visualizer.add_schedule_op_spacing(rows)
    longest = 0
    for row in spaced:
        while row and row[-1] is None:
            row.pop()
        longest = max(longest, sum(
            1 if a is None else widths[a.computation_type].width
            for a in row))
    return longest


def rank_of(rows):
    out = {}
    for rank, row in enumerate(rows):
        for action in row:
            for one in action.sub_actions or (action,):
                out[one.stage_index] = rank
    return out


def slots(schedule, ranks):
    """Activation slots of each rank; None if torch has none for a class."""
    if not isinstance(schedule, schedules.PipelineScheduleMulti):
        return None
    out = []
    for rank in range(ranks):
        stages = sorted({
            one.stage_index for action in computed(
                schedule.pipeline_order[rank])
            for one in action.sub_actions or (action,)})
        out.append(schedules.analyze_pipeline_activation_liveness(
            schedule, pp_rank=rank, stage_indices=stages,
            granularity="stage_microbatch").num_slots)
    return out


def answer(torch_name, ranks, virtual, microbatches):
    try:
        schedule = made(torch_name, ranks, virtual, microbatches)
    except ValueError as error:
        return {"refused": str(error).split(",")[0][:120]}
    order = schedule.pipeline_order if hasattr(
        schedule, "pipeline_order") else None
    if order is None:
        order = schedule._get_pipeline_order()
    rows = [computed(order[rank]) for rank in range(ranks)]
    out = {"order": [digest(row) for row in rows]}
    # Its 1F1B has a last row that torch itself refuses.
    try:
        schedules._validate_schedule(dict(enumerate(rows)), ranks,
                                     ranks * virtual, microbatches)
    except (AssertionError, ValueError, RuntimeError) as error:
        out["invalid"] = str(error).split("\n")[0]
        if torch_name != "1F1B":
            return out
        # What its runtime, which needs no table, does on the last rank: each
        # micro-batch forward, then back.
        rows[-1] = [schedules._Action(ranks - 1, kind, micro)
                    for micro in range(microbatches)
                    for kind in (schedules.F, schedules.B)]
    placed = rank_of(rows)
    lowered = schedules._add_send_recv(
        {rank: list(row) for rank, row in enumerate(rows)},
        stage_to_rank=placed.__getitem__, num_stages=ranks * virtual)
    out["lowered"] = [digest(lowered[rank]) for rank in range(ranks)]
    out["steps"] = length([list(row) for row in rows])
    found = slots(schedule, ranks)
    if found:
        out["slots"] = found
    return out


def cases():
    for name, torch_name, virtuals in SCHEDULES:
        for virtual in virtuals:
            for ranks in RANKS:
                for microbatches in range(ranks, 4 * ranks + 1):
                    yield {"schedule": name, "ranks": ranks,
                           "virtual": virtual, "microbatches": microbatches,
                           **answer(torch_name, ranks, virtual,
                                    microbatches)}


def record():
    yield "pipelining/torch", {
        "format": "shardc.runtimes.pipelining/v1",
        "versions": records.versions("torch"), "cases": list(cases())}

"""``posh-reward calibrate``: weights and balance fitted to people's judgments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posh_reward.cli import INCOMPLETE, agreement, agreement_flags
from posh_reward.cli.flags import add_metric, count, describe, metric_of
from posh_reward.cli.packet_answers import add_answers, collect_answers
from posh_reward.errors import InputError, MissingDependencyError
from posh_reward.metrics.load_metric import metric_flags, read_metric

if TYPE_CHECKING:
    from posh_reward.metrics.posh.posh import PoSh
    from posh_reward.study.calibration.calibration_set import CalibrationSet
    from posh_reward.study.calibration.out_of_fold import CalibrationResult
    from posh_reward.types import Scores

ABOUT = """\
Fit to people's judgments how much entities, attributes and relations count, and how much precision
(few mistakes) counts against recall (few omissions). The fit is tested out of fold, with no image
in two folds; its gain in agreement over equal weights is printed with a 95 % interval.

With -o the fit is saved as settings, if the scores agree with people at all and the gain's interval
lies above 0. The judge is asked once about each text: --scores keeps the graded elements, so
fitting again asks nothing. A fit holds only for the judge that graded."""
PACKETS = (
    "Answers to a packet of `posh-reward packets make`, as `posh-reward packets read` takes them."
)


def add_calibrate(command: argparse.ArgumentParser) -> None:
    """Add the commands below ``calibrate``."""
    describe(command, ABOUT)
    commands = command.add_subparsers(required=True, metavar="COMMAND")
    flags = agreement_flags
    for name, line, about, inputs, add, read in (
        ("docent", "DOCENT's coarse judgments", flags.DOCENT, "", flags.docent_input, _pairs),
        ("pairs", "pairs that people compared", flags.PAIRS, "pairs.csv --label preferred",
         flags.pairs_input, _pairs),
        ("ratings", "texts that people rated", flags.RATINGS, "ratings.csv", flags.ratings_input,
         _ratings),
        ("packets", "answers to a packet", PACKETS, "runs/packet.key.json answers/", add_answers,
         _packets),
    ):  # fmt: skip
        example = f"calibrate {name} {inputs} -o runs/weights.yaml".replace("  ", " ")
        each = describe(commands.add_parser(name, help=line), about, example)
        add_metric(each)
        each.set_defaults(command=partial(calibrate, read), **flags.ABSENT)
        add(each)
        _add_fit(each)
        flags.resampling(each, against=False)
        flags.output(each)


def _add_fit(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("calibration").add_argument
    add("-o", "--output", metavar="YAML", help="settings to write: the metric's with the weights, "
        "and next to them (a.yaml, a.reward.yaml) the reward's with the balance")  # fmt: skip
    add("--overwrite", action="store_true", help="replace existing settings")
    add("--anyway", action="store_true", help="save even if the gain is not settled")
    add("--scores", metavar="FILE", help="output of `posh-reward score --elements` with the "
        "columns generation and reference, to which missing texts are added (.jsonl; created if "
        "missing)")  # fmt: skip
    add("--folds", type=count, default=5, help="number of folds")


def calibrate(
    read: Callable[[argparse.Namespace], CalibrationSet], flags: argparse.Namespace
) -> int:
    """Fit, test and print; save the fit if its gain is settled."""
    from posh_reward.study.calibration import out_of_fold
    from posh_reward.study.calibration.settings_output import check_output

    if flags.output is not None:
        check_output(Path(flags.output), flags.overwrite)
    agreement.check_outputs(flags)
    data = read(flags)
    scores, signature = _scores(data, flags)
    settings = out_of_fold.CalibrationSettings(
        flags.folds, flags.resamples, flags.seed, flags.quiet
    )
    result = out_of_fold.calibrate(data, scores, settings)
    words = out_of_fold.verdict_lines(result)
    report = replace(result.report, notes=[*words, *result.report.notes], extra=_numbers(result))
    status = agreement.show(report, flags)
    complete = _save(result, flags, [data.title, *words, f"Graded by {signature}"])
    return status if complete else INCOMPLETE


def _numbers(result: CalibrationResult) -> dict[str, object]:
    precision, recall = result.calibration.precision_and_recall
    return {
        "calibration": {
            "weights": asdict(result.calibration.weights),
            "precision_weight": precision,
            "recall_weight": recall,
            "intervals": result.ranges,
            "gain": asdict(result.gain),
            "agreement": asdict(result.agreement),
            "figure": result.figure,
            "images": result.images,
            "settled": result.holds,
        }
    }


def _save(result: CalibrationResult, flags: argparse.Namespace, notes: list[str]) -> bool:
    """Write the settings; return False if the gain does not justify the ones requested."""
    from posh_reward.study.calibration.out_of_fold import disagreement
    from posh_reward.study.calibration.settings_output import save

    if flags.output is None:
        return True
    if not result.holds and not flags.anyway:
        why = disagreement(result) or "the gain is not settled. Keep equal weights"
        print(f"did not write {flags.output!r}: {why}, or pass --anyway", file=sys.stderr)
        return False
    metric = read_metric(flags.config, **metric_flags(flags))
    metric.pop("store", None)  # the next run names its own
    print("\n".join(save(result.calibration, metric, Path(flags.output), notes)), file=sys.stderr)
    return True


def _scores(data: CalibrationSet, flags: argparse.Namespace) -> tuple[list[Scores], str]:
    from posh_reward.study.calibration.graded_texts import GradeCache, score_missing

    cache = GradeCache.read(Path(flags.scores)) if flags.scores is not None else GradeCache()
    metrics: list[PoSh] = []

    def metric() -> PoSh:
        metrics[:] = [metric_of(flags)]
        return metrics[0]

    scores = score_missing(data.pairs, cache, metric, flags.quiet)
    if not metrics and flags.output is not None:
        # The saved settings must be those of the judge that graded. If that judge runs elsewhere,
        # it cannot be made here, and its signature cannot be checked.
        with suppress(MissingDependencyError):
            cache.check_signature(metric().signature)
    return scores, str(cache.signature)


def _pairs(flags: argparse.Namespace) -> CalibrationSet:
    from posh_reward.study.calibration.calibration_set import preference_set

    return preference_set(agreement.preferences(flags))


def _ratings(flags: argparse.Namespace) -> CalibrationSet:
    from posh_reward.study.calibration.calibration_set import rating_set

    return rating_set(agreement.text_ratings(flags), agreement.rating_columns(flags))


def _packets(flags: argparse.Namespace) -> CalibrationSet:
    from posh_reward.study.calibration.calibration_set import packet_preferences, preference_set
    from posh_reward.study.packets.results import answers_that_count

    key, collection = collect_answers(flags)
    answers = answers_that_count(collection, flags.leave_out)
    if not any(answer.marks is None for answer in answers):
        raise InputError(
            "no answer compares two texts: see the refused files, or leave out fewer raters"
        )
    return preference_set(packet_preferences(answers, key))

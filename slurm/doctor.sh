#!/usr/bin/env bash
# srun --ntasks-per-node=1 bash slurm/doctor.sh CONFIG [flags of the recipe]
#
# Checks that training can run on one node, together with the ranks of the job's other nodes.
set -euo pipefail
source slurm/common.sh
if [[ -n ${JUDGE_NEXT_TO_TRAINER:-} ]]; then
  require_shared_gpus
fi
[[ ${DOCTOR:-1} != 0 ]] || exit 0
offline_if_fetched "$@"
exec posh-reward doctor --config "$1" \
  --machines "$SLURM_STEP_NUM_NODES" --machine-rank "$SLURM_NODEID" \
  --processes "$(ranks_here)" \
  --address "$(first_node)" \
  --port "$(meeting_port)" \
  ${DOCTOR_SECONDS:+--timeout "$DOCTOR_SECONDS"} ${FIRST_HOUR:+--first-hour "$FIRST_HOUR"} \
  -- "${@:2}"

# shellcheck shell=bash
# What the scripts in this folder share; they source it in the folder that sbatch was called in.

readonly TRY_AGAIN=75 # a recipe's exit status after it stopped early with a checkpoint

# The environment named by VENV, and what Slurm leaves to the script.
prepare() {
  # shellcheck disable=SC1091 # made by the user
  source "${VENV:-.venv}/bin/activate"
  # srun does not pass --cpus-per-task on by itself.
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
  # Slurm sets it from 23.02 on: the recipes stop before it (--stop_before).
  if [[ -z ${SLURM_JOB_END_TIME:-} ]]; then
    SLURM_JOB_END_TIME=$(date -d "$(squeue -h -j "$SLURM_JOB_ID" -O EndTime | head -n 1)" +%s)
    export SLURM_JOB_END_TIME
  fi
  # One folder for all nodes: this one, which they share.
  export POSH_STATUS_FILE=$PWD/.status-$SLURM_JOB_ID
  rm -f "$POSH_STATUS_FILE"
}

# srun_doctor CONFIG [flags]: tries on all nodes what training needs of them; DOCTOR=0 leaves out all
# but the cards' compute mode. A step of its own, without --kill-on-bad-exit: srun drops what a node
# said just before it failed.
srun_doctor() {
  srun ${HET_GROUP:+--het-group="$HET_GROUP"} --ntasks-per-node=1 bash slurm/doctor.sh "$@"
}

# srun_training RECIPE [flags]: trains on all nodes of the job, or of the part HET_GROUP. When one
# node fails the others end too, or they would wait for it for ever.
srun_training() {
  srun ${HET_GROUP:+--het-group="$HET_GROUP"} --ntasks-per-node=1 --kill-on-bad-exit=1 \
    bash slurm/node.sh "$@"
}

# The ranks of this node: one for each of its cards, or PROCESSES_PER_NODE without cards.
ranks_here() {
  echo "${SLURM_GPUS_ON_NODE:-${PROCESSES_PER_NODE:-1}}"
}

# The node at which the ranks of a step meet.
first_node() {
  scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1
}

# Nodes that share a job share its number, so they agree on a port that other jobs do not have.
meeting_port() {
  echo $((20000 + SLURM_JOB_ID % 10000))
}

# leave STATUS: ends the job with a status; it is queued again if training only stopped early. The
# launcher reports every status as 1, so the recipe's own is in a file.
leave() {
  local status=$1
  if [[ $status -ne 0 && -s $POSH_STATUS_FILE ]]; then
    status=$(<"$POSH_STATUS_FILE")
  fi
  rm -f "$POSH_STATUS_FILE"
  if [[ $status -eq $TRY_AGAIN ]]; then
    echo "stopped early with a checkpoint: queued again, to go on from there"
    scontrol requeue "$SLURM_JOB_ID"
    sleep 60 # until Slurm ends this script, so that the job does not count as failed
  fi
  exit "$status"
}

# Fails unless each card of this node can host a judge next to the trainer.
require_shared_cards() {
  local mode
  mode=$(nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null) || return 0
  if [[ $mode == *Exclusive_Process* ]]; then
    echo "The cards of $(hostname) are in compute mode EXCLUSIVE_PROCESS, which admits the trainer" \
      "but not a judge next to it. Have it changed (nvidia-smi --compute-mode=DEFAULT, as root)," \
      "or serve the judge from other cards: slurm/dapo_judge_server.sh" >&2
    exit 1
  fi
}

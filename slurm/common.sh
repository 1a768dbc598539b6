# shellcheck shell=bash
# Shared functions; the scripts in this folder source it from the folder that sbatch was called in.

readonly TRY_AGAIN=75 # a recipe's exit status after it stopped early with a checkpoint

# ---- Edit for your site (docs/slurm.md), or set these variables before sbatch. Account and partition
# are sbatch's own: SBATCH_ACCOUNT, SBATCH_PARTITION.
site() {
  # module load cuda/13.0 gcc                    # what `posh-reward doctor` finds missing
  # export HF_HOME=/scratch/$USER/huggingface    # downloads, on a file system that all nodes see
  export VENV=${VENV:-.venv}                     # the environment with posh-reward[gpu]
  export SRUN_FLAGS=${SRUN_FLAGS:-}              # such as "--container-image=posh.sqsh --mpi=none"
}
# ---- End of what a site edits.

# Activates the environment VENV, and sets variables that Slurm does not.
prepare() {
  site
  # shellcheck disable=SC1091 # created by the user
  source "$VENV/bin/activate"
  # srun does not inherit --cpus-per-task.
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
  # Set by Slurm from 23.02 on; the recipes stop before it (--stop_before).
  if [[ -z ${SLURM_JOB_END_TIME:-} ]]; then
    SLURM_JOB_END_TIME=$(date -d "$(squeue -h -j "$SLURM_JOB_ID" -O EndTime | head -n 1)" +%s)
    export SLURM_JOB_END_TIME
  fi
  # All nodes share this folder.
  export POSH_STATUS_FILE=$PWD/.status-$SLURM_JOB_ID
  rm -f "$POSH_STATUS_FILE"
}

# srun with the site's flags.
srun_here() {
  local flags
  read -ra flags <<<"$SRUN_FLAGS"
  srun "${flags[@]}" "$@"
}

# srun_doctor CONFIG [flags]: checks on all nodes that training can run there; with DOCTOR=0 only the
# GPUs' compute mode. A separate step without --kill-on-bad-exit, which would drop the last output
# of a failing node.
srun_doctor() {
  srun_here ${HET_GROUP:+--het-group="$HET_GROUP"} --ntasks-per-node=1 bash slurm/doctor.sh "$@"
}

# srun_training RECIPE [flags]: trains on all nodes of the job, or of its part HET_GROUP. If one node
# fails the others are ended too; otherwise they would wait for it forever.
srun_training() {
  srun_here ${HET_GROUP:+--het-group="$HET_GROUP"} --ntasks-per-node=1 --kill-on-bad-exit=1 \
    bash slurm/node.sh "$@"
}

# Number of ranks on this node: one per GPU, or PROCESSES_PER_NODE without GPUs.
ranks_here() {
  echo "${SLURM_GPUS_ON_NODE:-${PROCESSES_PER_NODE:-1}}"
}

# offline_if_fetched CONFIG [flags]: keeps the ranks from asking the hub for what is here; eight of
# them retry for minutes if it does not answer.
offline_if_fetched() {
  if [[ -z ${HF_HUB_OFFLINE:-} ]] && posh-reward fetch --check --config "$1" -- "${@:2}" &>/dev/null; then
    export HF_HUB_OFFLINE=1
  fi
}

# The node where the ranks of a step meet.
first_node() {
  scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1
}

# Derived from the job's number, so all its nodes agree on a port that other jobs do not use.
meeting_port() {
  echo $((20000 + SLURM_JOB_ID % 10000))
}

# leave STATUS: ends the job with a status, or requeues it if training only stopped early. The
# launcher reports every failure as 1, so the recipe writes its own status to a file.
leave() {
  local status=$1
  if [[ $status -ne 0 && -s $POSH_STATUS_FILE ]]; then
    status=$(<"$POSH_STATUS_FILE")
  fi
  rm -f "$POSH_STATUS_FILE"
  if [[ $status -eq $TRY_AGAIN ]]; then
    echo "stopped early with a checkpoint: queued again, to continue from it"
    scontrol requeue "$SLURM_JOB_ID"
    sleep 60 # until Slurm ends this script; exiting first would mark the job as failed
  fi
  exit "$status"
}

# Fails unless each GPU of this node can host a judge next to the trainer.
require_shared_gpus() {
  local mode
  mode=$(nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null) || return 0
  if [[ $mode == *Exclusive_Process* ]]; then
    echo "The GPUs of $(hostname) are in compute mode EXCLUSIVE_PROCESS, which allows the trainer" \
      "but no judge next to it. Have it changed (nvidia-smi --compute-mode=DEFAULT, as root)," \
      "or serve the judge from other GPUs: slurm/dapo_judge_server.sh" >&2
    exit 1
  fi
}

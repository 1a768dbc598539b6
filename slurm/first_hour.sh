#!/usr/bin/env bash
# sbatch slurm/first_hour.sh configs/dapo/qwen2_5_vl_7b.yaml [flags of recipes/dapo_posh.py]
#
# The ladder of a node's first hour (docs/performance.md), on one node. Send first_hour.json on: it
# has no path, host name or key in it. After a correction, the same command goes on where it failed.
#SBATCH --job-name=posh-first-hour
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --mem=900G
#SBATCH --time=02:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
set -euo pipefail
source slurm/common.sh
prepare
export DOCTOR=1 FIRST_HOUR=${FIRST_HOUR:-first_hour.json}
srun_doctor "$@"

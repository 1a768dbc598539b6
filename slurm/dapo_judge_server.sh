#!/usr/bin/env bash
# sbatch slurm/dapo_judge_server.sh configs/dapo/qwen2_5_vl_7b.yaml [flags of recipes/dapo_posh.py]
#
# The trainer on the first nodes, and a judge server on each node of the second part. Training
# starts once all servers answer. If one dies, training stops with a checkpoint; when training ends,
# so do the servers. Otherwise like slurm/dapo_posh.sh.
#SBATCH --job-name=posh-dapo
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --mem=900G
#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH hetjob
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --mem=300G
set -euo pipefail
source slurm/common.sh
prepare
port=$((10000 + SLURM_JOB_ID % 10000)) # below 32768, where Linux's ephemeral ports begin
read -ra hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_1" | xargs)

srun_here --het-group=1 --ntasks-per-node=1 --kill-on-bad-exit=1 \
  bash "${JUDGE_SERVER:-slurm/judge_server.sh}" "$port" &
judge=$!

# The settings of configs/judge/server.yaml, with the addresses.
settings="$PWD/.judge-$SLURM_JOB_ID.yaml"
addresses=$(printf "http://%s:$port/v1, " "${hosts[@]}")
sed "s|^base_urls:.*|base_urls: [${addresses%, }]|" "${JUDGE_SETTINGS:-configs/judge/server.yaml}" >"$settings"

end_both() { # STATUS
  if kill "$judge" 2>/dev/null; then wait "$judge" || true; fi
  rm -f "$settings"
  leave "$1"
}

for host in "${hosts[@]}"; do
  until curl --silent --fail --output /dev/null "http://$host:$port/health"; do
    if ! kill -0 "$judge" 2>/dev/null || ((SECONDS > ${JUDGE_SECONDS:-1800})); then
      echo "the judge server on $host does not answer; its output is above" >&2
      end_both 1
    fi
    sleep 5
  done
done

HET_GROUP=0 srun_doctor "$1" --judge "$settings" "${@:2}" || end_both 1
HET_GROUP=0 srun_training recipes/dapo_posh.py --resume_from_checkpoint latest \
  --judge "$settings" --config "$@" &
training=$!
status=0
wait -n "$judge" "$training" || status=$?
if kill -0 "$training" 2>/dev/null; then
  echo "the judge server has ended: training stops with a checkpoint" >&2
  scancel --signal=USR1 "$SLURM_JOB_ID"
  wait "$training" || true
  rm -f "$POSH_STATUS_FILE" # do not requeue: the server may die again
  status=1
fi
end_both "$status"

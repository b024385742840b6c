#!/bin/sh
# Runs the whole experiment twice under the smoke profile, in a copy of the tracked files.
# The first run, stages beside each other, must fill every table; DVC must then find nothing to do.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d "${TMPDIR:-/tmp}/smoke.XXXXXX")
trap 'rm -rf "$copy"' EXIT
git -C "$top" ls-files -co --exclude-standard -z | (cd "$top" && xargs -0 cp --parents -t "$copy")
cd "$copy"
git init -q . && git add -A && git -c user.name=smoke -c user.email=smoke@localhost commit -qm smoke
rm -f dvc.lock
sed -i 's/^profile: .*/profile: smoke/' params.yaml
unset MLFLOW_TRACKING_URI RAY_ADDRESS HOSM_PROJECT HOSM_STORAGE
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
python -m hosm.experiment.repro
dvc repro | tee second.log
grep -q "Data and pipelines are up to date" second.log
dvc metrics show
dvc plots show -q >/dev/null
dvc params diff
python -m tests.experiment.report.check_report reports/index.html
python -m tests.experiment.report.check_report reports/appendix.html
echo "smoke: two runs passed"

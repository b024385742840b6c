#!/bin/sh
# Runs the tests of each folder that differs from the last commit: hosm/samplers/x.py -> tests/samplers,
# hosm/noise.py -> tests/test_noise.py, tests/x/test_y.py -> itself.
set -eu
cd "$(dirname "$0")/.."
chosen=$(git status --porcelain -uall | cut -c4- | sed 's/.* -> //' | while read -r file; do
  case "$file" in
    tests/*test_*.py) [ -f "$file" ] && echo "$file" ;;
    pipeline/*|dvc.yaml|params.yaml) echo tests/project/test_pipeline.py ;;
    hosm/*/*.py)
      folder=tests/$(dirname "${file#hosm/}")
      while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
      echo "$folder" ;;
    hosm/*.py) test=tests/test_$(basename "$file"); [ -f "$test" ] && echo "$test" ;;
  esac || true
done | sort -u)
if [ -z "$chosen" ]; then echo "check: no code differs from the last commit"; exit 0; fi
# shellcheck disable=SC2086
pytest $chosen

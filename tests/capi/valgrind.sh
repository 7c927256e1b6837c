#!/usr/bin/env bash
# Runs the C test program under valgrind's memcheck: no invalid access, nothing uninitialised, nothing lost.
# valgrind.sh PROGRAM ARGUMENT...; exit code 77 where there is no valgrind.
set -euo pipefail

if ! command -v valgrind >/dev/null; then
  echo "skipped: valgrind is not installed (scripts/setup --tests gets it)"
  exit 77
fi
# What stays reachable at the end are the tables of handles, which are there until the process ends.
exec valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect,possible \
  --errors-for-leak-kinds=definite,indirect,possible --suppressions="$(dirname "$0")/valgrind.supp" --error-exitcode=99 \
  --fair-sched=yes "$@"

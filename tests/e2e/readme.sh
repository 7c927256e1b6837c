#!/usr/bin/env bash
# The README's table of settings is the one that the command prints.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

run FERRY_BUDGET=1GiB env --markdown
expect_code 0
expect_silence
sed -n '/^<!-- settings -->$/,/^<!-- \/settings -->$/p' "$3/README.md" | sed '1d;$d' >"$scratch/readme"
diff "$scratch/readme" "$scratch/out" ||
  complain 'README.md differs; put the output of `ferry env --markdown` between its settings markers'

finish

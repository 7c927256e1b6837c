#!/usr/bin/env bash
# The README's table of settings is the one that the command prints, and its commands for plans work.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

run FERRY_BUDGET=1GiB env --markdown
expect_code 0
expect_silence
sed -n '/^<!-- settings -->$/,/^<!-- \/settings -->$/p' "$3/README.md" | sed '1d;$d' >"$scratch/readme"
diff "$scratch/readme" "$scratch/out" ||
  complain 'README.md differs; put the output of `ferry env --markdown` between its settings markers'

cd "$scratch" || exit 1
ln -s "$3/examples" examples
commands=0
while read -ra words; do
  run "${words[@]:1}"
  expect_code 0
  expect_silence
  commands=$((commands + 1))
done < <(sed -n '/^## Plan$/,/^## In a trainer$/p' "$3/README.md" | sed -n 's/ *#.*//; /^ferry /p')
((commands >= 4)) || complain "expected the README's commands for plans"

finish

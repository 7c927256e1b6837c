#!/usr/bin/env bash
# Every command explains itself, and a wrong call says what was wrong.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

run --help
expect_code 0
for text in train plan simulate bench tape doctor report env devices completion manual "Exit codes:" "Example:"; do
  expect_out "$text"
done
expect_silence

# with_commands FUNCTION: calls it with each command, those inside others included, as an array.
words_in() { sed -n '/^Subcommands:/,/^$/s/^  \([a-z]\{1,\}\) .*/\1/p' <<<"$out"; }
with_commands() {
  local command inner
  run --help
  for command in $(words_in); do
    run "$command" --help
    for inner in $(words_in); do "$1" "$command" "$inner"; done
    "$1" "$command"
  done
}

# An example, and results for machines.
helps() {
  run "$@" --help
  expect_code 0
  expect_silence
  expect_out "Example"
  expect_out "  ferry $1"
  [[ "$1" == completion || "$1" == manual ]] || expect_out "--json FILE"
}
with_commands helps

# Every example is one: its command has its flags, and takes their values.
parses() {
  run "$@" --help
  local help="$out" example flag words
  while read -r example; do
    example="${example%%#*}"
    example="ferry ${example#*ferry }"
    read -ra words <<<"${example%%[>|]*}"
    for flag in "${words[@]}"; do
      [[ "$flag" != -?* ]] || grep -qE -- "(^|[ ,])${flag%%=*}([ ,=]|\$)" <<<"$help" || complain "expected flag of an example: $flag"
    done
    run "${words[@]:1}" --help
    expect_code 0
    expect_silence
  done < <(grep -E '^ +(\$ )?(FERRY_[A-Z_]*=[^ ]* )*ferry ' <<<"$help")
}
with_commands parses

# Those that need no hour are run, in the order of their help: the files that one writes, the next may read.
mkdir "$scratch/examples_run" && ln -s "$(realpath "$3")/examples" "$scratch/examples_run/examples"
head -c 60000 "$3/lib/nn/data/shipped.txt" >"$scratch/examples_run/book.txt"
ferry="$(realpath "$ferry")"
cd "$scratch/examples_run" || exit 1
for command in plan simulate env devices completion manual train; do
  run "$command" --help
  small=()
  [[ "$command" != train ]] || small=(--preset tiny --layers 12 --steps 2 --sample 0 --validate-every 0)
  while read -r example; do
    steps=("${small[@]}")
    [[ "$example" != *--resume* ]] || steps+=(--steps 3)
    [[ "$example" != *--slow-link* ]] || steps+=(--steps 8)
    read -ra words <<<"${example%%[#>|]*}"
    settings=()
    while [[ "${words[0]}" != ferry ]]; do
      settings+=("${words[0]}")
      words=("${words[@]:1}")
    done
    run "${settings[@]}" "${words[@]:1}" "${steps[@]}"
    expect_code 0
    expect_silence
  done < <(grep -E '^ +(FERRY_[A-Z_]*=[^ ]* )*ferry ' <<<"$out")
done

run --version
expect_code 0
expect_out "ferry $2"

run
expect_code 2
expect_err 'ferry: no command given; see `ferry --help`'

run bogus
expect_code 2
expect_one_line_of_error
expect_err_has "bogus"

run env --nope
expect_code 2
expect_one_line_of_error
expect_err_has "--nope"

run env --json
expect_code 2
expect_one_line_of_error

finish

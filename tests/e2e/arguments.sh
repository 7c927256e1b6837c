#!/usr/bin/env bash
# What is wrong on a command line, whichever command it is for: names that nobody knows, and files that cannot be written.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

examples="$(realpath "$3")/examples"
cd "$scratch" || exit 1

# Names like those that there are.
run train --bugdet 20%
expect_refusal 'ferry: --bugdet is not a flag of `ferry train`; did you mean --budget? see `ferry train --help`'
run tape --bytez=4MiB
expect_refusal "did you mean --bytes?"
run plan -budget 20%
expect_refusal "did you mean --budget?"
run bench policies --round 3
expect_refusal '--round is not a flag of `ferry bench policies`; did you mean --rounds?'
run trian
expect_refusal "'trian' is not a command of \`ferry\`; did you mean train? see \`ferry --help\`"
run bench polices
expect_refusal "'polices' is not a command of \`ferry bench\`; did you mean policies?"

# Names of others, and of nobody.
run bench link --gpu x
expect_refusal '--gpu is not a flag of `ferry bench link`; `ferry bench`, `ferry bench breakeven` and `ferry bench policies` have it'
run bench --gpu a100-80 link
expect_refusal '--gpu is not a flag of `ferry bench link`: leave it out'
run bench --rounds 3 breakeven
expect_refusal '--rounds is not a flag of `ferry bench breakeven`: leave it out'
run tape --slow link=2
expect_refusal '--slow is not a flag of `ferry tape`; `ferry simulate` has it; see `ferry tape --help`'
run --budget 20% train
expect_refusal '--budget is not a flag of `ferry`'
run train surprise
expect_refusal "\`ferry train\` has no use for 'surprise'; see \`ferry train --help\`"
run train --no-such-flag 4
expect_refusal 'ferry: --no-such-flag is not a flag of `ferry train`; see `ferry train --help`'

# A file that cannot be written is told before the work is done, by every command that writes one.
unwritable() {
  run "$@" /proc/x.json
  expect_failure "ferry: '/proc/x.json': cannot be saved: no file can be made in '/proc'; save elsewhere"
  [[ -z "$out" ]] || complain "expected nothing on stdout"
  run "$@" no/such/x.json
  expect_failure "ferry: 'no/such/x.json': cannot be saved: No such file or directory; create the folder 'no/such' first"
  [[ -z "$out" ]] || complain "expected nothing on stdout"
}
step=(--profile "$examples/profiles/chain_of_eight.json" --gpu rtx4090)
if [[ -d /proc/self ]]; then
  for flag in --save --save-grads --profile --json; do unwritable train "$flag"; done
  for flag in --svg --json; do unwritable train --compare "$flag"; done
  for flag in -o --json; do unwritable plan "${step[@]}" --budget 50% "$flag"; done
  unwritable plan "${step[@]}" --sweep 5 --json
  unwritable plan --case none.json --json
  for flag in --trace --json; do unwritable simulate "${step[@]}" --policy keep "$flag"; done
  for flag in --svg --json; do
    unwritable tape "$flag"
    unwritable bench "$flag"
    unwritable bench breakeven "$flag"
    unwritable bench policies "$flag"
    unwritable report none.json "$flag"
  done
  for flag in --json --write-hardware; do unwritable bench link "$flag"; done
  unwritable report none.json -o
  unwritable doctor --model gpt --layers 2 --width 64 --heads 2 --gpu t4 --json
  unwritable env --json
  unwritable devices --json
fi

finish

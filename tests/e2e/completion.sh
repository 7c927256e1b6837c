#!/usr/bin/env bash
# The completion scripts, as the shells use them: the bash function with the words that bash gives it, then both shells
# at a terminal.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

ferry="$(realpath "$ferry")"
cd "$scratch" || exit 1
run completion bash
expect_code 0
expect_silence
cp out ferry.bash
run completion zsh
expect_code 0
expect_silence
cp out _ferry
run completion fish
expect_refusal "bash"
run completion
expect_refusal "shell"

bash --norc -n ferry.bash || complain "expected bash to read its script"
# shellcheck source=/dev/null
source ferry.bash
mkdir folder && touch profile.json 'two words.json' folder/plan.json

# completes LINE: what is offered at its end is in `offered`. Words are cut as bash cuts them.
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
completes() {
  local rest="$1" word
  COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDS=() COMPREPLY=()
  while [[ "$rest" =~ ^[[:blank:]]*([=:]+|[^[:blank:]=:]+)(.*)$ ]]; do
    COMP_WORDS+=("${BASH_REMATCH[1]}")
    rest="${BASH_REMATCH[2]}"
  done
  [[ -z "$rest" ]] || COMP_WORDS+=("")
  # shellcheck disable=SC2034  # the function looks at it
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _ferry
  ran="completion of '$1'" code=0 err="" out="${COMPREPLY[*]}"
  offered=" ${COMPREPLY[*]} "
}
offers() { for word in "$@"; do [[ "$offered" == *" $word "* ]] || complain "expected to be offered: $word"; done; }
offers_only() { [[ "$offered" == " $* " ]] || complain "expected to be offered only: $*"; }

# Every command and every flag of its help.
completes "ferry "
run --help
mapfile -t commands < <(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' out)
((${#commands[@]} >= 11)) || complain "expected the commands in the help"
offers "${commands[@]}"
for command in "${commands[@]}"; do
  "$ferry" "$command" --help >help
  mapfile -t flags < <(sed -n 's/^  \(-[a-z],\)\{0,1\}\(--[a-z-]*\).*/\2/p' help)
  ((${#flags[@]} > 0)) || complain "expected flags in the help of $command"
  completes "ferry $command -"
  offers "${flags[@]}"
done

completes "ferry tr"
offers_only train
completes "ferry --v"
offers_only --version
completes "ferry completion "
offers_only bash zsh
completes "ferry bench "
offers_only link breakeven policies
completes "ferry bench pol"
offers_only policies
completes "ferry bench link --js"
offers_only --json
completes "ferry train --tok"
offers_only --tokens
completes "ferry train --tokens "
offers_only uint16 uint32
completes "ferry train --tokens uint16 --pre"
offers_only --preset
completes "ferry train --preset=t"
offers_only tiny
completes "ferry plan --gpu a100"
offers_only a100-40 a100-80
completes "ferry plan --gpu plan --bud" # a value that looks like a command
offers_only --budget
completes "ferry train --policy "
offers auto keep recompute offload selective every= sqrt plan=
completes "ferry train --policy=ev"
offers_only every=
completes "ferry train --device cuda:"
offers_only ""
completes "ferry plan --profile pro"
offers_only profile.json
completes "ferry plan --profile=folder/"
offers_only folder/plan.json
completes "ferry train --policy plan=fold"
offers_only folder
completes "ferry train --policy plan= --bud"
offers_only --budget
completes "ferry plan --sweep 3"
offers_only ""

# At a terminal: type, press the tabulator key, and read what the shell makes of the line.
mkdir bin && ln -s "$ferry" bin/ferry
at_terminal() { # SHELL SETUP TYPED EXPECTED
  ran="$1: $3<tab>" code=0 err=""
  out="$(PATH="$scratch/bin:$PATH" HOME="$scratch" python3 - "$@" <<'PYTHON'
import os, pty, re, select, sys, time
shell, setup, typed, expected = sys.argv[1:]
arguments = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "dumb"
    os.execvp(arguments[0], arguments)
def read_until(wanted):
    seen, end = "", time.time() + 10
    while wanted not in seen and time.time() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    return seen
os.write(terminal, (setup + "\n").encode())
read_until("re" + "ady\r")
os.write(terminal, (typed + "\t").encode())
print(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|[\a\r]", "", read_until(expected)))
os.kill(child, 9)
PYTHON
  )"
  [[ "$out" == *"$4"* ]] || complain "expected on the line: $4"
}
if command -v python3 >python3.path; then
  start_bash="PS1='> '; source ferry.bash; echo re'ady'"
  at_terminal bash "$start_bash" "ferry simul" "ferry simulate "
  at_terminal bash "$start_bash" "ferry train --policy=ev" "--policy=every="
  at_terminal bash "$start_bash" "ferry plan --profile two" '--profile two\ words.json '
  at_terminal bash "$start_bash" 'ferry plan --profile "two w' '--profile "two words.json" '
else
  echo "skipped, of the terminals: there is no python3"
fi
if ! command -v zsh >zsh.path; then
  echo "skipped, of zsh: it is not there"
  finish
fi
zsh -n _ferry || complain "expected zsh to read its script"
command -v python3 >python3.path || finish
start_zsh="PS1='> '; unsetopt ZLE_BRACKETED; fpath=($scratch \$fpath); autoload -U compinit; compinit -u -D; echo re'ady'"
at_terminal zsh "$start_zsh" "ferry simul" "ferry simulate "
at_terminal zsh "$start_zsh" "ferry bench pol" "ferry bench policies "
at_terminal zsh "$start_zsh" "ferry bench breakeven --js" "ferry bench breakeven --json"
at_terminal zsh "$start_zsh" "ferry completion z" "ferry completion zsh "
at_terminal zsh "$start_zsh" "ferry train --tokens uint1" "--tokens uint16 "
at_terminal zsh "$start_zsh" "ferry train --policy ev" "--policy every="
at_terminal zsh "$start_zsh" "ferry train --policy plan=prof" "plan=profile.json "
at_terminal zsh "$start_zsh" "ferry plan --gpu=rtx409" "--gpu=rtx4090 "
at_terminal zsh "$start_zsh" "ferry plan -o fold" "-o folder/"
at_terminal zsh "$start_zsh" "ferry plan --no" "ferry plan --no-insure "
at_terminal zsh "$start_zsh" $'ferry train --temp\t0.5 --pr' "Write what a step looked like here, for"

finish

#!/usr/bin/env bash
# Every command in the README works: those in its blocks, its table of questions and the variables it exports. So do the commands
# of docs/command.md that need neither an hour nor somebody's files.
# shellcheck source-path=SCRIPTDIR source=expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

readme="$3/README.md"
ferry="$(realpath "$ferry")"
cd "$scratch" || exit 1
ln -s "$(realpath "$3")/examples" examples
FERRY_DEVICE=host FERRY_DEVICE_BYTES=160MiB "$ferry" train --policy keep --steps 1 >out 2>oom.txt && echo "expected a message to explain"

# ours PAGE: the lines of its blocks of shell commands, without what is said about them.
ours() { awk '/^```/ { shell = !shell && $0 == "```sh"; next } shell' "$1" | sed 's/ *#.*//'; }

# follow LINE: runs what it says, made small where it would train or search for long.
commands=0
follow() {
  local words settings=() small=()
  read -ra words <<<"$1"
  while [[ "${words[0]}" == FERRY_*=* ]]; do
    settings+=("${words[0]}")
    words=("${words[@]:1}")
  done
  [[ "${words[1]}" != train ]] || small=(--preset tiny --layers 12 --steps 4 --validate-every 0 --sample 0)
  [[ "$1" != *" --slow-link"* ]] || small+=(--steps 8)
  [[ "${words[1]} ${words[2]}" != "bench policies" ]] || small=(--budgets 3 --plan-ms 20)
  run FERRY_DEVICE=host "${settings[@]}" "${words[@]:1}" "${small[@]}"
  expect_code 0
  expect_silence
  commands=$((commands + 1))
}

while read -r line; do
  case "$line" in
    "ferry "* | FERRY_*=*" ferry "*) follow "$line" ;;
    scripts/*) [[ -x "$3/${line%% *}" ]] || complain "expected a script: $line" ;;
    "export FERRY_"*=*)
      run "${line#export }" env
      expect_code 0
      ;;
    "") ;;
    *) complain "expected a command that this test can run: $line" ;;
  esac
done < <(ours "$readme")
((commands >= 2)) || complain "expected the README's commands"

while read -r line; do follow "$line"; done < <(sed -n 's/^| .*? | `\(ferry [^`]*\)`.*/\1/p' "$readme")
((commands >= 9)) || complain "expected the README's table of commands"

commands=0
while read -r line; do follow "$line"; done < <(ours "$3/docs/command.md" |
  grep -E '^(FERRY_.* )?ferry (plan|simulate|tape|doctor --model|bench (breakeven|policies)|train --(policy|compare)|report run)')
((commands >= 10)) || complain "expected the commands of docs/command.md"

# What scripts/demo runs once it has built, as it stands there, on a small net.
mapfile -t screens < <(sed -n 's/.*shown=(\(.*\))$/\1/p' "$3/scripts/demo")
((${#screens[@]} == 2)) || complain "expected two screens in scripts/demo"
for index in "${!screens[@]}"; do
  read -ra words <<<"${screens[index]//\"/}"
  ((index == 0)) || words+=(--slow-link)
  run FERRY_DEVICE=host train --compare --preset deep "${words[@]}" --width 32 --heads 2 --context 32 --batch 1 --steps 8
  expect_code 0
  expect_silence
  expect_out "GPT of 16 layers"
done
for picture in demo slow_link; do
  grep -qF "(docs/$picture.svg)" "$readme" || complain "expected the picture docs/$picture.svg"
  [[ "$(tail -n 1 "$3/docs/$picture.svg")" == "</svg>" ]] || complain "expected a whole picture: docs/$picture.svg"
done

# A newcomer's first page.
ran="README.md" code="" out="" err=""
(($(wc -l <"$readme") < 200)) || complain "expected fewer than 200 lines: more belongs into docs/"

finish

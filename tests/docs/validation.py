#!/usr/bin/env python3
"""docs/validation.md: what each row's command predicts is what the table says, and so are errors and medians.

usage: validation.py FERRY PAGE [--write]     with --write, puts the table into the page instead
"""
import json
import re
import statistics
import subprocess
import sys

FULL = "gradient checkpointing"
SECOND = "selective checkpointing, every second product"
SELECTIVE = "selective checkpointing"
INPUTS = "block inputs offloaded, blocks rebuilt"
GIB, GB, MB = 2**30, 1e9, 1e6

TITAN = "--model llama-3-8b --context 8192 --batch 2 --gpu h200 --zero 3 --interconnect nvlink "
LADDER = ("--model llama --layers 12 --width 768 --heads 12 --kv-heads 4 --ffn 2048 --vocab 16512 --tied --context 1024 "
          "--gpu rtx4090 ")
LAYERS_22B = ("--model gpt --layers 48 --width 6144 --heads 64 --context 2048 --batch 4 --attention explicit --gpu h200 "
              "--zero 3 --ranks 8 --interconnect nvlink --interconnect-gbps 10000")
TUNE = "--model llama-3-8b --context 2048 --batch 2 --gpu rtx4090 --kernels compile --logits portions "

# source, figure, way (and the one that it is measured against), measured in bytes or as a share, command
ROWS = [
    ("torchtitan, compiled, 8 GPUs", "peak", SECOND, None, 77.0 * GIB, TITAN + "--ranks 8 --kernels compile"),
    ("torchtitan, eager, 8 GPUs", "peak", SECOND, None, 82.4 * GIB, TITAN + "--ranks 8 --kernels eager"),
    ("torchtitan, compiled, 128 GPUs", "peak", SECOND, None, 62.0 * GIB, TITAN + "--ranks 128 --kernels compile"),
    ("torchtitan, eager, 128 GPUs", "peak", SECOND, None, 67.0 * GIB, TITAN + "--ranks 128 --kernels eager"),
    ("ladder, flash attention", "peak", "keep", None, 13303.1 * MB, LADDER + "--batch 16 --kernels eager"),
    ("ladder, compiled", "peak", "keep", None, 8685.7 * MB, LADDER + "--batch 16 --kernels compile"),
    ("ladder, checkpointed", "peak", FULL, None, 3410.4 * MB, LADDER + "--batch 16 --kernels compile"),
    ("ladder, explicit attention", "peak", "keep", None, 23565.1 * MB,
     LADDER + "--batch 16 --kernels eager --attention explicit"),
    ("ladder, explicit attention, batch 4", "peak", "keep", None, 6849.3 * MB,
     LADDER + "--batch 4 --kernels eager --attention explicit"),
    ("torchtune, LoRA", "peak", FULL, None, 16.2 * GIB, TUNE + "--lora 8"),
    ("torchtune, QLoRA", "peak", FULL, None, 7.4 * GIB, TUNE + "--qlora 8"),
    ("axolotl, block inputs", "host", INPUTS, None, 2.41 * GB,
     "qwen3-8b.json --context 8192 --batch 1 --gpu h200 --optimizer adamw8bit --kernels eager"),
    ("transformers, block inputs", "host", INPUTS, None, 128 * 2**20,
     "--model gpt --layers 8 --width 1024 --heads 16 --context 8192 --batch 1 --gpu h100"),
    ("ladder, checkpointed", "overhead", FULL, None, 116.4 / 96.8 - 1, LADDER + "--batch 16 --kernels compile"),
    ("Korthikanti, full", "overhead", FULL, None, (7.7 + 19.5) / (7.7 + 11.9) - 1, LAYERS_22B),
    ("Korthikanti, selective", "overhead", SELECTIVE, None, (7.7 + 13.2) / (7.7 + 11.9) - 1, LAYERS_22B),
    ("torchtitan 97, full over selective", "overhead", FULL, SECOND, 4.9126 / 4.5459 - 1,
     "--model llama-2-7b --context 2048 --batch 8 --gpu h200 --kernels compile --zero 3 --ranks 8 --interconnect nvlink"),
]

QWEN3_8B = {"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
            "num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
            "vocab_size": 151936, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


def answer(ferry, command):
    words = command.split()
    if words[0] == "qwen3-8b.json":
        words = ["/dev/stdin"] + words[1:]
    ran = subprocess.run([ferry, "doctor", *words, "--json", "-"], capture_output=True, text=True, check=False,
                         input=json.dumps(QWEN3_8B))
    if ran.returncode:
        sys.exit(f"ferry doctor {command}: {ran.stderr}")
    return json.loads(ran.stdout)


def forecast_of(all_, way):
    found = next(one["forecast"] for one in all_["in_pytorch"] if one["name"] == way)
    if found is None:
        sys.exit(f"{way} does not fit: choose a larger GPU for the command")
    return found


def predicted(all_, figure, way, over):
    memory = all_["memory"]
    if way == "keep":
        return memory["needed_bytes"] - memory["reserve_bytes"]
    one = forecast_of(all_, way)
    if one["accumulate"] > 1 and figure != "overhead":
        sys.exit(f"{way} fits in parts only: choose a larger GPU for the command")
    if figure == "host":
        return one["host_bytes"]
    if figure == "overhead":
        base = forecast_of(all_, over)["step_us"] if over else one["unlimited_us"]
        return one["step_us"] / base - 1
    held = all_.get("memory_instead", memory)
    return one["peak_bytes"] + sum(held[key] for key in (
        "weights_bytes", "gradients_bytes", "optimizer_bytes", "gathered_bytes"))


def words_of(figure, value):
    if figure == "overhead":
        return f"{100 * value:+.1f}%"
    return f"{value / GIB:.2f} GiB" if value >= GIB else f"{value / 2**20:.0f} MiB"


def lines_of(ferry):
    rows, errors = [], {"peak": [], "overhead": [], "host": []}
    for source, figure, way, over, measured, command in ROWS:
        value = predicted(answer(ferry, command), figure, way, over)
        error = 100 * (value - measured) if figure == "overhead" else 100 * (value / measured - 1)
        errors[figure].append(abs(error))
        unit = " points" if figure == "overhead" else "%"
        name = f"{figure}, {way}" + (f" over {over}" if over else "")
        rows.append(f"| {source} | {name} | {words_of(figure, measured)} | {words_of(figure, value)} | {error:+.1f}{unit} | "
                    f"`ferry doctor {command}` |")
    head = ["| source | figure | measured | predicted | error | command |", "| --- | --- | --- | --- | --- | --- |"]
    medians = {name: statistics.median(values) for name, values in errors.items()}
    summary = (f"Median error of {len(errors['peak'])} peaks {medians['peak']:.1f}%, of {len(errors['overhead'])} overheads "
               f"{medians['overhead']:.1f} points, of {len(errors['host'])} figures of host memory {medians['host']:.1f}%.")
    return head + rows, summary


def main():
    ferry, page = sys.argv[1], sys.argv[2]
    table, summary = lines_of(ferry)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    if "--write" in sys.argv:
        text = re.sub(r"(<!-- table -->\n).*?(\n<!-- summary -->\n).*?(\n\nAsked were)",
                      lambda m: m[1] + "\n".join(table) + "\n" + m[2] + summary + m[3], text, flags=re.S)
        with open(page, "w", encoding="utf-8") as file:
            file.write(text)
        return
    missing = [line for line in table + [summary] if line not in text]
    for line in missing:
        print(f"{page}: expected this line; put it there with {sys.argv[0]} FERRY PAGE --write\n  {line}")
    if len(ROWS) < 10 or missing:
        sys.exit(1)


main()

// What the settings' reference (docs/settings.md) says beyond a line in `ferry env`: for every row of the table in
// config.cpp, in its order, the member of `ferry::config`, the heading it stands under, and what it affects. Constants.
#pragma once

#include <array>
#include <string_view>

namespace ferry::support {

struct setting_detail {
  std::string_view variable;
  std::string_view member;
  std::string_view group;
  std::string_view details;  ///< Markdown: sentences, no lists
};

inline constexpr std::string_view decided_group = "What you decide";
inline constexpr std::string_view moving_group = "How items move";
inline constexpr std::string_view reported_group = "What you get to see";
inline constexpr std::string_view device_group = "The device";

inline constexpr std::array setting_details{
    setting_detail{
        "FERRY_DEVICE", "device", decided_group,
        "`auto` is the first GPU where there is one that can be used, else the host device, on which streams are "
        "threads and the link is paced. `sim` has a virtual clock: kernels and copies only cost time. `cuda:1` is "
        "the second GPU; naming one that is not there is an error."},
    setting_detail{
        "FERRY_BUDGET", "budget", decided_group,
        "A hard limit: the session takes this much once and hands out no more. Weights, gradients and whatever "
        "else the program allocates come on top, unless it counts them against the budget itself. A share is one "
        "of `FERRY_DEVICE_BYTES`. On the host device, bytes that are not available of the machine's memory, or of the "
        "process's control group, are refused. A step that cannot fit ends with an error that names the need; smaller "
        "budgets cost time, and `ferry bench policies` shows how much. A program can change it between steps "
        "(`session::set_budget`)."},
    setting_detail{
        "FERRY_HOST_BUDGET", "host_budget", decided_group,
        "The session takes it once, as one piece of pinned memory; the machine cannot page it out, so leave it some: "
        "bytes that are not available, of its memory or of the process's control group, are refused. A share is one of "
        "`FERRY_PINNED_BYTES`. When it is full, items are kept or dropped instead, and the statistics say so."},
    setting_detail{
        "FERRY_POLICY", "policy", decided_group,
        "`auto` measures two steps, then follows a plan of its own, and plans again when the steps change. "
        "`keep` is for comparison, and for finding out what is needed. `offload` sends everything over the link, "
        "`recompute` drops everything that has a recipe but the segments' inputs; `every=N` and `sqrt` keep fewer "
        "of those; `selective` keeps what is dearest to rebuild per byte, as far as the budget goes. "
        "`plan=FILE` carries out what `ferry plan` has written. Items without a recipe are never dropped. "
        "Results are the same bits under all of them."},
    setting_detail{
        "FERRY_MIN_BYTES", "min_bytes", moving_group,
        "Moving or rebuilding a small item costs more than its bytes are worth. What is kept because of it counts "
        "against the budget."},
    setting_detail{
        "FERRY_MAX_IN_FLIGHT", "max_in_flight", moving_group,
        "Bytes on their way out still occupy the device. A lower limit leaves more for what is computed next, a "
        "higher one lets the link work without gaps."},
    setting_detail{
        "FERRY_CHUNK_BYTES", "chunk_bytes", moving_group,
        "Smaller chunks let a transfer be given up sooner and an urgent one go first; larger ones copy faster: "
        "`ferry bench link` shows from which size on."},
    setting_detail{
        "FERRY_RUN_AHEAD", "run_ahead", moving_group,
        "The host enqueues work before the device gets to it. The further it is ahead, the earlier decisions "
        "are made, with less knowledge of how the transfers go, and the more memory is in use at once; too "
        "little may let the device run dry where launching is slow."},
    setting_detail{
        "FERRY_INSURE", "insure", moving_group,
        "For policy `auto`, and `ferry plan`. An insured plan has a recipe to take for every item that is late, so "
        "that a link that stands still costs little. `off` lets plans ferry anything: a little faster while the "
        "link keeps its speed."},
    setting_detail{
        "FERRY_ADAPT", "adapt", moving_group,
        "For policy `auto`. `off`: the first plan stays, until the batch or the budget is another. Late transfers are "
        "still replaced by recipes."},
    setting_detail{
        "FERRY_PLAN_EFFORT", "plan_effort", moving_group,
        "For policy `auto`. By the clock, the first plan may take 150 ms and each later one 60 ms, so a faster machine "
        "finds better plans, and two runs may follow different ones. With a number of moves, the same step gives the "
        "same plan on every machine; 5000 is about what the clock permits for a dozen segments."},
    setting_detail{
        "FERRY_STALL_TOLERANCE_US", "stall_tolerance_us", moving_group,
        "Larger values keep to the plan, at the price of waiting; 1e9 turns the replacement of late transfers "
        "off. Under every policy, and only for items that have a recipe."},
    setting_detail{
        "FERRY_VERIFY", "verify", moving_group,
        "`checksum` is for hunting faults of memory, driver or link. Every byte that leaves is hashed when it leaves "
        "and when it is back. A copy that differs is an error at `restore`, or the item is rebuilt if it has a recipe. "
        "Costs time on the CPU for every transfer. `recipes` is for finding a recipe, or a forward function, that does "
        "not give the same bits when it is run again: it runs while the item is still there, at `save` or else at "
        "`restore`, into other memory of the budget, and a difference is a `recipe_error` that names the item and its "
        "first byte that differs. Every item has its turn in one of its first four steps, as far as the recipe's "
        "inputs are on the device and there is room beside the item; the statistics count both, and with "
        "`FERRY_POLICY=keep` and a budget with room to spare nothing is left out. The program waits for each of these "
        "runs: its times mean nothing meanwhile."},
    setting_detail{
        "FERRY_ADVISE", "advise", reported_group,
        "Once in a step, the session rehearses what the step has asked so far, and the last whole one, on a device of "
        "addresses only, until it knows the smallest budget that they work with: some milliseconds, at most a second "
        "for tens of thousands of items. `off` is for programs that find a batch size by trying."},
    setting_detail{"FERRY_TRACE", "trace_file", reported_group,
                   "Opens in Perfetto; `ferry report` makes a page of it. It grows with every step; "
                   "[formats.md](formats.md) describes it. A file that cannot be made is an error when the session "
                   "begins; one that cannot be written any further ends there, and the run goes on."},
    setting_detail{
        "FERRY_STATS", "stats_file", reported_group,
        "Bytes by tier, transfers, waiting, recipes, and every item's decisions; [formats.md](formats.md) has all "
        "keys. A program has the same in `session::stats`."},
    setting_detail{
        "FERRY_PROFILE", "profile_file", reported_group,
        "Written when the session ends, of the last training step that ended: items, recipes, times and the "
        "order of need ([formats.md](formats.md)). `ferry plan --profile` makes a plan of it, for this machine or "
        "another, and `FERRY_POLICY=plan=FILE` has any program follow that. Recording costs a pair of events "
        "for each segment."},
    setting_detail{"FERRY_LOG", "log", reported_group,
                   "`warning` tells of transfers that failed and were made good, and of leases that a step has left; "
                   "`info` also of plans that are made and changed, and at the end of settings that had no effect. "
                   "Errors are exceptions, or status codes in C, whatever is chosen here."},
    setting_detail{
        "FERRY_DEVICE_BYTES", "device_bytes", device_group,
        "What the device hands out at most, to Ferry and to the program. On the host device this is how a laptop "
        "runs out of memory as a GPU does."},
    setting_detail{
        "FERRY_PINNED_BYTES", "pinned_bytes", device_group,
        "What can be pinned at most, by Ferry and the program together; `FERRY_HOST_BUDGET` is a part of it."},
    setting_detail{
        "FERRY_LINK_GBPS", "link_gbps", device_group,
        "A real GPU's link is measured, not set. `auto` gives the host device the ratio of transfer time to "
        "compute time that a 7B-class block has on an A100 with PCIe 4, so that trade-offs have the right shape. A "
        "schedule tries out how a run bears a link that changes; in `ferry::config` it is the member "
        "`link_schedule`."},
    setting_detail{"FERRY_LINK_LATENCY_US", "link_latency_us", device_group,
                   "What each transfer takes beyond its bytes. It makes small chunks dear."},
    setting_detail{
        "FERRY_COMPUTE_THREADS", "compute_threads", device_group,
        "Copies are done by the CPU on this device: `auto` leaves them one of the cores that the process may use by "
        "its "
        "affinity mask and its control group, as a GPU has copy engines. Where `OMP_NUM_THREADS` (the first number of "
        "a "
        "list) or `OMP_THREAD_LIMIT` are set, it takes what they say. With as many threads as cores, computation and "
        "copies slow each other down; policy `auto` measures that and plans with it. `ferry devices` has the number "
        "and "
        "where it comes from. Results do not depend on it."},
    setting_detail{
        "FERRY_CHECK_ORDER", "check_order", device_group,
        "For whoever writes a trainer: finds kernels and copies that touch the same bytes without an event between "
        "them, by what each `launch` declares. `host_device::order_violations` has the findings. Costs time at "
        "every call."},
};

}  // namespace ferry::support

// The same question in real time: the transformer core at a small size on the host device, whose link changes speed
// after a few steps. Times are those of a shared machine, so they are compared, not asked for.
#pragma once

namespace ferry::bench {

/// Prints a row per fault and variant; takes about a minute.
void judge_on_host();

}  // namespace ferry::bench

// Bytes over a time that is not known in advance, in a bounded number of parts.
#pragma once

#include "report/run_data.hpp"

namespace ferry::command {

/// The value from `at_us` on. Where parts run out, two become one.
void add_to_curve(byte_curve& curve, double at_us, double bytes);

}  // namespace ferry::command

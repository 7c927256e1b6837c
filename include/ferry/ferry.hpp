// What a trainer needs. The planner is in ferry/plan.hpp and ferry/model_profile.hpp, the simulator in
// ferry/simulate.hpp.
#pragma once

#include "ferry/config.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/device.hpp"
#include "ferry/error.hpp"
#include "ferry/export.h"
#include "ferry/function.hpp"
#include "ferry/host_device.hpp"
#include "ferry/item.hpp"
#include "ferry/label.hpp"
#include "ferry/segments.hpp"
#include "ferry/session.hpp"
#include "ferry/sim_device.hpp"
#include "ferry/stats.hpp"
#include "ferry/version.hpp"

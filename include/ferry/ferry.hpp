// All of Ferry's public headers.
#pragma once

#include "ferry/config.hpp"
#include "ferry/cuda_device.hpp"
#include "ferry/device.hpp"
#include "ferry/error.hpp"
#include "ferry/export.hpp"
#include "ferry/function.hpp"
#include "ferry/host_device.hpp"
#include "ferry/item.hpp"
#include "ferry/label.hpp"
#include "ferry/model_profile.hpp"
#include "ferry/plan.hpp"
#include "ferry/session.hpp"
#include "ferry/sim_device.hpp"
#include "ferry/simulate.hpp"
#include "ferry/stats.hpp"
#include "ferry/version.hpp"

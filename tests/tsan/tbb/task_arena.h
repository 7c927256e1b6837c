#pragma once

#include "threads_in_sight.hpp"

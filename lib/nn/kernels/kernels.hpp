// All kernels. Compiled by nvcc (kernels.cu) and, once per instruction set, by the host compiler (kernels_host.cpp).
#pragma once

#include "nn/kernels/adamw.hpp"
#include "nn/kernels/bias.hpp"
#include "nn/kernels/cross_entropy.hpp"
#include "nn/kernels/embedding.hpp"
#include "nn/kernels/gelu.hpp"
#include "nn/kernels/layernorm.hpp"
#include "nn/kernels/softmax.hpp"

// One step of AdamW, as the host tells it to a kernel.
#pragma once

namespace ferry::nn {

/// The numbers of one step.
struct adamw_step {
  float learning_rate = 0;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  float correction1 = 1;  ///< 1 - beta1^step
  float correction2 = 1;  ///< 1 - beta2^step
};

}  // namespace ferry::nn

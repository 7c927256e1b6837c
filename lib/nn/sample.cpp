#include "ferry/nn/sample.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "nn/random.hpp"

namespace ferry::nn {

namespace {

/// `at`: from 0 up to 1, which share of the probabilities to pass by.
std::int32_t choose(std::vector<float> const& logits, double temperature, double at) {
  auto const likeliest = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  auto const weight = [&](float logit) { return std::exp(static_cast<double>(logit - *likeliest) / temperature); };
  double sum = 0;
  for (float const logit : logits) sum += weight(logit);
  double rest = at * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rest -= weight(logits[i]);
    if (rest < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(logits.size() - 1);
}

}  // namespace

std::vector<std::int32_t> sample(gpt& model, session& on, std::vector<std::int32_t> prompt,
                                 sample_options const& options, std::function<bool()> const& stop) {
  std::vector<std::int32_t> all = std::move(prompt);
  std::size_t const given = all.size();
  auto const context = static_cast<std::size_t>(model.shape().context);
  for (std::size_t i = 0; i < options.tokens && !stop(); ++i) {
    auto const seen = std::span<std::int32_t const>(all).last(std::min(all.size(), context));
    all.push_back(choose(model.next_logits(on, seen), options.temperature, random_unit(options.seed, i)));
  }
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(given));
  return all;
}

}  // namespace ferry::nn

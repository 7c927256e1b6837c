// Training of a chain of segments with real bytes: items of several inputs, row-wise and whole recipes and none at all,
// weights that every step changes by its gradients. So one wrong bit anywhere shows in the results of all later steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferry/error.hpp"
#include "ferry/session.hpp"
#include "support/fault_schedule.hpp"
#include "support/session_model.hpp"

namespace ferry::testing {

/// An item of a chain, by segment and place in it.
struct chain_place {
  std::uint32_t segment = 0;
  std::uint32_t index = 0;
  friend auto operator<=>(chain_place const&, chain_place const&) = default;
};

struct chain_item {
  std::uint64_t seed = 0;
  std::size_t row_words = 1;  ///< of 8 bytes
  std::vector<chain_place> inputs{};
  bool has_recipe = false;
  std::size_t cost = 1;  ///< how many times as long as reading and writing it takes
  bool by_rows = false;  ///< each of its rows depends on the same row of its inputs only
};

struct chain_segment {
  std::vector<chain_item> items;
  std::size_t gradient_row_words = 1;
  std::size_t workspace_row_words = 0;  ///< of backward
  bool scratch_first = false;           ///< allocated before its items are restored
  bool all_at_once = false;             ///< backward wants all its items together
};

struct chain_shape {
  std::vector<chain_segment> segments;

  [[nodiscard]] chain_item const& at(chain_place p) const { return segments[p.segment].items[p.index]; }
  [[nodiscard]] std::size_t bytes_of(chain_place p, std::size_t rows) const { return rows * at(p).row_words * 8; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(segments.size()); }
};

/// Items of 0.5 to 12 KiB at 8 rows. The first of a segment reads items of the segment before.
inline chain_shape draw_chain(dice& d) {
  chain_shape shape;
  shape.segments.resize(d.from_to(3, 10));
  for (std::uint32_t s = 0; s < shape.size(); ++s) {
    auto& segment = shape.segments[s];
    auto const items = static_cast<std::uint32_t>(d.from_to(1, 5));
    segment.gradient_row_words = d.from_to(1, 32);
    segment.workspace_row_words = d.one_in(2) ? d.from_to(1, 64) : 0;
    segment.scratch_first = s % 2 == 0;
    segment.all_at_once = d.one_in(2);
    for (std::uint32_t i = 0; i < items; ++i) {
      chain_item item;
      item.seed = d.any();
      item.row_words = d.of<std::size_t>({d.from_to(8, 32), d.from_to(8, 64), d.from_to(32, 192)});
      if (i == 0 && s > 0) {
        auto const before = static_cast<std::uint32_t>(shape.segments[s - 1].items.size());
        item.inputs.push_back({s - 1, before - 1});
        if (before > 1 && d.one_in(2)) item.inputs.push_back({s - 1, static_cast<std::uint32_t>(d.below(before - 1))});
      } else if (i > 0) {
        item.inputs.push_back({s, i - 1});
        for (std::uint32_t other = 0; other + 1 < i; ++other) {
          if (d.one_in(3)) item.inputs.push_back({s, other});
        }
      }
      bool const has_inputs = !item.inputs.empty();
      item.has_recipe = has_inputs && !d.one_in(6);
      if (i > 0 && d.one_in(10)) {  // a mask that was drawn
        item.inputs.clear();
        item.has_recipe = false;
      }
      item.by_rows = !d.one_in(4);
      item.cost = d.of<std::size_t>({1, 1, 2, 5});
      segment.items.push_back(std::move(item));
    }
  }
  return shape;
}

/// What a chain needs, in bytes of the session's budget.
struct chain_bytes {
  std::size_t must_hold = 0;       ///< blocks and leases that the trainer holds at once
  std::size_t one_segment = 0;     ///< the same if the trainer held all items of a segment
  std::size_t with_inputs = 0;     ///< that with the segment that its input is rebuilt from
  std::size_t without_recipe = 0;  ///< all items that nothing can rebuild
  std::size_t everything = 0;
};

class chain_trainer {
 public:
  chain_trainer(device& on, stream_ref stream, chain_shape const& shape)
      : device_(on),
        stream_(stream),
        shape_(shape),
        weights_(on, memory_space::device, 8 * shape.size()),
        gradients_(on, memory_space::device, 8 * shape.size()) {
    std::array const accesses{writes(weights_.data(), weights_.bytes()), writes(gradients_.data(), gradients_.bytes())};
    device_.launch(stream_, "k init", accesses, [this, n = shape.size()] {
      for (std::uint32_t s = 0; s < n; ++s) {
        weights_.as<std::uint64_t>()[s] = mixed(s);
        gradients_.as<std::uint64_t>()[s] = 0;
      }
    });
  }

  chain_trainer(chain_trainer const&) = delete;
  chain_trainer& operator=(chain_trainer const&) = delete;
  ~chain_trainer() {
    try {
      device_.synchronize(stream_);
    } catch (error const&) {
      // Whoever ran the step has been told.
    }
  }

  static std::size_t bytes_beside_budget(chain_shape const& shape) { return 4096 + 16 * shape.size(); }

  struct step_options {
    std::uint64_t step = 0;
    std::size_t rows = 8;
    std::uint32_t micro_batches = 1;
    bool interleaved = false;
  };

  /// `at(share)` is called before each segment, with the share of the step that is enqueued.
  template <typename At>
  void step(session& on, step_options const& how, At const& at) {
    double const all = 2.0 * how.micro_batches * shape_.size();
    double done = 0;
    auto const forward_all = [&](std::uint32_t mb) {
      for (std::uint32_t s = 0; s < shape_.size(); ++s) {
        at(done++ / all);
        forward(on, how, mb, s);
      }
      held_.clear();
    };
    auto const backward_all = [&](std::uint32_t mb) {
      block gradient = on.allocate(how.rows * 8, stream_, "g loss");
      seed_gradient(gradient, how, mb);
      for (std::uint32_t s = shape_.size(); s-- > 0;) {
        at(done++ / all);
        backward(on, how, mb, s, gradient);
      }
    };
    on.begin_step();
    if (how.interleaved) {
      for (std::uint32_t mb = 0; mb < how.micro_batches; ++mb) forward_all(mb);
      for (std::uint32_t mb = 0; mb < how.micro_batches; ++mb) backward_all(mb);
    } else {
      for (std::uint32_t mb = 0; mb < how.micro_batches; ++mb) {
        forward_all(mb);
        backward_all(mb);
      }
    }
    update();
    on.end_step();
  }

  /// One hash for each step. Requires: the stream has been synchronised.
  [[nodiscard]] std::vector<std::uint64_t> const& results() const noexcept { return results_; }

  /// Whatever the policy; of one micro-batch.
  static chain_bytes bytes_of(chain_shape const& shape, std::size_t rows) {
    chain_bytes need;
    auto const bytes = [&](chain_place p) { return room_model::rounded(shape.bytes_of(p, rows)); };
    std::size_t gradient_before = room_model::rounded(rows * 8);
    std::size_t most_scratch = 0;
    for (std::uint32_t s = shape.size(); s-- > 0;) {
      auto const& segment = shape.segments[s];
      std::size_t items = 0;
      std::size_t largest = 0;
      for (std::uint32_t i = 0; i < segment.items.size(); ++i) {
        items += bytes({s, i});
        largest = std::max(largest, bytes({s, i}));
        need.without_recipe += segment.items[i].has_recipe ? 0 : bytes({s, i});
      }
      std::size_t inputs = 0;
      for (std::uint32_t i = 0; s > 0 && i < shape.segments[s - 1].items.size(); ++i) inputs += bytes({s - 1, i});
      std::size_t const gradient = room_model::rounded(rows * segment.gradient_row_words * 8);
      std::size_t const made = gradient + room_model::rounded(rows * segment.workspace_row_words * 8);
      std::size_t const scratch = gradient_before + made;
      std::size_t const held = segment.all_at_once     ? made + items
                               : segment.scratch_first ? made + largest
                                                       : std::max(made, largest);
      need.must_hold = std::max(need.must_hold, gradient_before + held);
      gradient_before = gradient;
      need.everything += items;
      most_scratch = std::max(most_scratch, scratch);
      need.one_segment = std::max(need.one_segment, scratch + items);
      need.with_inputs = std::max(need.with_inputs, scratch + items + inputs);
    }
    need.must_hold = std::max(need.must_hold, forward_bytes(shape, rows));
    need.one_segment = std::max(need.one_segment, need.must_hold);
    need.with_inputs = std::max(need.with_inputs, need.one_segment);
    need.everything += most_scratch;
    return need;
  }

 private:
  static item_key key_of(std::uint32_t mb, chain_place p) {
    return {mb, p.segment, label("i" + std::to_string(p.index))};
  }

  /// Forward holds an item until its last reader has been enqueued.
  static bool last_reader(chain_shape const& shape, chain_place item, chain_place reader) {
    for (std::uint32_t s = reader.segment; s < std::min(shape.size(), item.segment + 2); ++s) {
      for (std::uint32_t i = s == reader.segment ? reader.index + 1 : 0; i < shape.segments[s].items.size(); ++i) {
        if (std::ranges::count(shape.at({s, i}).inputs, item) > 0) return false;
      }
    }
    return true;
  }

  static std::size_t forward_bytes(chain_shape const& shape, std::size_t rows) {
    std::map<chain_place, std::size_t> held;
    std::size_t most = 0;
    for (std::uint32_t s = 0; s < shape.size(); ++s) {
      for (std::uint32_t i = 0; i < shape.segments[s].items.size(); ++i) {
        held[{s, i}] = room_model::rounded(shape.bytes_of({s, i}, rows));
        std::size_t sum = 0;
        for (auto const& [place, bytes] : held) sum += bytes;
        most = std::max(most, sum);
        std::erase_if(held, [&](auto const& one) { return last_reader(shape, one.first, {s, i}); });
      }
    }
    return most;
  }

  struct source {
    std::uint64_t const* words;
    std::size_t row_words;
  };

  /// The rows [first, first + count) of an item, or all of it.
  void enqueue_item(stream_ref stream, chain_place place, std::uint64_t salt, void* out,
                    std::span<void const* const> inputs, std::size_t rows, std::size_t first, std::size_t count) {
    auto const& item = shape_.at(place);
    std::vector<source> sources;
    std::uint64_t const* const weight = weights_.as<std::uint64_t>() + place.segment;
    std::vector<memory_access> accesses{reads(weight, 8)};
    auto const part = [&](void const* address, std::size_t row_words) {
      return std::pair(static_cast<std::byte const*>(address) + first * row_words * 8, count * row_words * 8);
    };
    auto const [to, to_bytes] = part(out, item.row_words);
    accesses.push_back(writes(to, to_bytes));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::size_t const row_words = shape_.at(item.inputs[i]).row_words;
      auto const [from, from_bytes] = part(inputs[i], row_words);
      accesses.push_back(reads(from, from_bytes));
      sources.push_back({static_cast<std::uint64_t const*>(inputs[i]), row_words});
    }
    bool const whole = !item.by_rows;
    std::uint64_t const seed = mixed(item.seed + salt);
    device_.launch(
        stream, "k item", accesses,
        [=, sources = std::move(sources), row_words = item.row_words, words = static_cast<std::uint64_t*>(out)] {
          std::uint64_t const base = seed + *weight;
          std::uint64_t carry = 0;
          for (std::size_t r = first; r < first + count; ++r) {
            for (std::size_t j = 0; j < row_words; ++j) {
              std::uint64_t value = base + (r * 131 + j) * 0x9E3779B97F4A7C15ULL + carry;
              for (auto const& from : sources) {
                value = value * 0xBF58476D1CE4E5B9ULL + from.words[r * from.row_words + j % from.row_words];
              }
              value ^= value >> 29U;
              words[r * row_words + j] = value;
              if (whole) carry = carry * 31 + value;
            }
          }
          static_cast<void>(rows);
        });
  }

  recipe recipe_of(chain_place place, std::uint32_t mb, std::size_t rows) {
    auto const& item = shape_.at(place);
    if (!item.has_recipe) return {};
    std::vector<item_key> inputs;
    for (auto const& input : item.inputs) inputs.push_back(key_of(mb, input));
    return {.enqueue =
                [this, place, rows](recipe_context const& c) {
                  bool const by_rows = shape_.at(place).by_rows;
                  enqueue_item(c.stream, place, 0, c.output, c.inputs, rows, by_rows ? c.first_row : 0,
                               by_rows ? c.rows : rows);
                },
            .inputs = item_list(inputs),
            .rows = item.by_rows ? rows : 1};
  }

  void forward(session& on, step_options const& how, std::uint32_t mb, std::uint32_t s) {
    for (std::uint32_t i = 0; i < shape_.segments[s].items.size(); ++i) {
      chain_place const place{s, i};
      auto const& item = shape_.at(place);
      auto memory = on.allocate(shape_.bytes_of(place, how.rows), stream_, "i");
      std::vector<void const*> inputs;
      for (auto const& input : item.inputs) inputs.push_back(held_.at(input).data());
      // What has no inputs is another in every step.
      std::uint64_t const salt = item.inputs.empty() ? mixed(how.step * 16 + mb + 1) : 0;
      enqueue_item(stream_, place, salt, memory.data(), inputs, how.rows, 0, how.rows);
      held_[place] = on.save(key_of(mb, place), std::move(memory), stream_, recipe_of(place, mb, how.rows));
      std::erase_if(held_, [&](auto const& one) { return last_reader(shape_, one.first, place); });
    }
  }

  void seed_gradient(block const& gradient, step_options const& how, std::uint32_t mb) {
    std::array const accesses{writes(gradient.data(), gradient.bytes())};
    device_.launch(stream_, "k loss", accesses,
                   [words = gradient.as<std::uint64_t>(), rows = how.rows, salt = how.step * 16 + mb] {
                     for (std::size_t r = 0; r < rows; ++r) words[r] = mixed(salt + 1000 * r);
                   });
  }

  /// The gradient that goes on to the segment before, in place of the one that came.
  void backward(session& on, step_options const& how, std::uint32_t mb, std::uint32_t s, block& gradient) {
    auto const& segment = shape_.segments[s];
    auto const items = static_cast<std::uint32_t>(segment.items.size());
    block next;
    block workspace;
    auto const allocate = [&] {
      next = on.allocate(how.rows * segment.gradient_row_words * 8, stream_, "g");
      if (segment.workspace_row_words > 0) {
        workspace = on.allocate(how.rows * segment.workspace_row_words * 8, stream_, "w");
      }
    };
    if (segment.scratch_first) allocate();
    std::vector<lease> leases;
    for (std::uint32_t i = items; i-- > 0;) {
      leases.push_back(on.restore(key_of(mb, {s, i}), stream_));
      if (!segment.all_at_once) {
        add_gradient(s, leases.back(), gradient);
        leases.clear();
      }
    }
    if (!segment.scratch_first) allocate();
    for (auto const& each : leases) add_gradient(s, each, gradient);
    pass_gradient(s, gradient, next, workspace);
    gradient = std::move(next);
    leases.clear();
    for (std::uint32_t i = items; i-- > 0;) on.release(key_of(mb, {s, i}));
  }

  void add_gradient(std::uint32_t s, lease const& item, block const& gradient) {
    std::uint64_t* const sum = gradients_.as<std::uint64_t>() + s;
    std::array const accesses{reads(item.data(), item.bytes()), reads(gradient.data(), gradient.bytes()),
                              writes(sum, 8)};
    device_.launch(stream_, "k gradient", accesses,
                   [=, words = item.as<std::uint64_t>(), count = item.bytes() / 8, of = gradient.as<std::uint64_t>(),
                    of_count = gradient.bytes() / 8] {
                     std::uint64_t hash = *sum;
                     for (std::size_t i = 0; i < count; ++i)
                       hash = (hash ^ words[i]) * 0x100000001B3ULL + of[i % of_count];
                     *sum = mixed(hash);
                   });
  }

  void pass_gradient(std::uint32_t s, block const& from, block const& to, block const& workspace) {
    std::uint64_t const* const sum = gradients_.as<std::uint64_t>() + s;
    std::vector<memory_access> accesses{reads(sum, 8), reads(from.data(), from.bytes()), writes(to.data(), to.bytes())};
    if (workspace) accesses.push_back(writes(workspace.data(), workspace.bytes()));
    device_.launch(
        stream_, "k pass", accesses,
        [=, in = from.as<std::uint64_t>(), in_count = from.bytes() / 8, out = to.as<std::uint64_t>(),
         out_count = to.bytes() / 8, work = workspace.as<std::uint64_t>(), work_count = workspace.bytes() / 8] {
          for (std::size_t i = 0; i < work_count; ++i) work[i] = in[i % in_count] + *sum;
          std::uint64_t carry = *sum;
          for (std::size_t i = 0; i < out_count; ++i) {
            carry = carry * 31 + (work_count > 0 ? work[i % work_count] : in[i % in_count]);
            out[i] = carry;
          }
        });
  }

  void update() {
    std::array const accesses{writes(weights_.data(), weights_.bytes()), writes(gradients_.data(), gradients_.bytes())};
    device_.launch(stream_, "k update", accesses, [this, n = shape_.size()] {
      std::uint64_t hash = 0;
      for (std::uint32_t s = 0; s < n; ++s) {
        auto& gradient = gradients_.as<std::uint64_t>()[s];
        auto& weight = weights_.as<std::uint64_t>()[s];
        hash = mixed(hash ^ gradient);
        weight = mixed(weight + gradient);
        gradient = 0;
      }
      results_.push_back(hash);
    });
  }

  device& device_;
  stream_ref stream_;
  chain_shape const& shape_;
  memory weights_;    // (segments)
  memory gradients_;  // (segments)
  std::map<chain_place, lease> held_;
  std::vector<std::uint64_t> results_;
};

}  // namespace ferry::testing

// The tape: how forward makes activations, so that making one and rebuilding it are the same piece of code.
//
// `compute` runs an operation on fresh memory, and saves the result in the session with that very operation as its
// recipe. Off the record (validation, sampling) the result is plain memory that goes when it is no longer used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "ferry/error.hpp"
#include "ferry/nn/items.hpp"
#include "ferry/session.hpp"

namespace ferry::nn {

/// A tensor while forward uses it. Once it ends, the session may move or drop it.
class activation {
 public:
  activation() noexcept = default;
  explicit activation(block&& memory) noexcept : memory_(std::move(memory)) {}
  activation(item_key const& key, lease&& saved) noexcept : key_(key), lease_(std::move(saved)) {}

  [[nodiscard]] float* data() const noexcept { return memory_ ? memory_.as<float>() : lease_.as<float>(); }
  [[nodiscard]] item_key const& key() const noexcept { return key_; }
  void end() noexcept {
    memory_ = {};
    lease_.end();
  }

 private:
  item_key key_;
  block memory_;
  lease lease_;
};

/// A tensor's floats, and its rows if they can be made one by one.
struct extent {
  std::size_t floats = 0;
  std::size_t rows = 1;
};

/// A pass of one micro-batch, as the session sees it.
class tape {
 public:
  enum class mode : std::uint8_t { recording, off_the_record };

  tape(session& on, stream_ref stream, std::uint32_t micro_batch, mode how, recompute_counts& counts)
      : session_(on), stream_(stream), micro_batch_(micro_batch), mode_(how), counts_(counts) {}

  /// `operation(recipe_context const&)` enqueues the kernels that write the item from `inputs`, in that order: all of
  /// it, or if `size` has rows, those that the context asks for. It may run again at any time until the item is
  /// released. Throws: `invalid_argument` for more than `item_list::in_place` inputs; as `session::save`.
  template <typename Operation>
  activation compute(std::uint32_t segment, item what, extent size, std::initializer_list<activation const*> inputs,
                     Operation operation) const {
    if (inputs.size() > item_list::in_place) {
      throw invalid_argument("an operation of the tape reads at most " + std::to_string(item_list::in_place) +
                             " items");
    }
    item_key const key{micro_batch_, segment, name_of(what)};
    block memory = session_.allocate(size.floats * sizeof(float), stream_, key.name);
    std::array<void const*, item_list::in_place> addresses{};
    std::array<item_key, item_list::in_place> keys;
    std::size_t count = 0;
    for (activation const* const input : inputs) {
      addresses[count] = input->data();
      keys[count++] = input->key();
    }
    operation(recipe_context{stream_, memory.data(), memory.bytes(), {addresses.data(), count}, 0, size.rows});
    if (mode_ == mode::off_the_record) return activation(std::move(memory));
    auto again = [operation, rows = size.rows,
                  counter = counts_.counter(what, segment)](recipe_context const& context) {
      *counter += static_cast<double>(context.rows) / static_cast<double>(rows);
      operation(context);
    };
    recipe how{std::move(again), item_list(std::span<item_key const>(keys.data(), count)), size.rows};
    return {key, session_.save(key, std::move(memory), stream_, std::move(how))};
  }

  /// The same tape, for what need not be saved.
  [[nodiscard]] tape off_the_record() const { return {session_, stream_, micro_batch_, mode::off_the_record, counts_}; }
  [[nodiscard]] block scratch(std::size_t floats, label const& purpose) const {
    return session_.allocate(floats * sizeof(float), stream_, purpose);
  }
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] std::uint32_t micro_batch() const noexcept { return micro_batch_; }
  [[nodiscard]] session& on() const noexcept { return session_; }

 private:
  session& session_;
  stream_ref stream_;
  std::uint32_t micro_batch_;
  mode mode_;
  recompute_counts& counts_;
};

/// An item in backward: brought back when it is made, given up for good by `release`.
class recalled {
 public:
  recalled(tape const& from, std::uint32_t segment, item what)
      : session_(from.on()),
        key_{from.micro_batch(), segment, name_of(what)},
        lease_(session_.restore(key_, from.stream())) {}

  [[nodiscard]] float const* data() const noexcept { return lease_.as<float>(); }
  void release() {
    lease_.end();
    session_.release(key_);
  }

 private:
  session& session_;
  item_key key_;
  lease lease_;
};

}  // namespace ferry::nn

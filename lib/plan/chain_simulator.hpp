// The exact simulator: lays a chain plan out as operations and whole tensors on their way, and times these.
//
// Forward ferries in order of production and waits for a copy out when memory is short. In backward the order of
// compute operations is fixed first (replays come from the table), then every fetch gets the earliest position from
// which its bytes fit until it is needed, in order of need. So memory is safe by positions and waits, whatever the
// timing, which comes last. Threads: one simulator per thread; it keeps its buffers between runs.
// Shared with tools/: a change here is one of the command too.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/chain.hpp"
#include "plan/chain_plan.hpp"
#include "plan/chain_timeline.hpp"
#include "plan/replay_table.hpp"

namespace ferry::planning {

class chain_simulator {
 public:
  chain_simulator(chain const& of, replay_table const& replays);

  /// The makespan; infinity if the plan does not fit.
  double run(chain_plan const& plan);

  // Of the last run that fitted.
  [[nodiscard]] std::vector<placed_op> const& ops() const noexcept { return ops_; }
  [[nodiscard]] std::vector<transfer_out> const& outs() const noexcept { return outs_; }
  [[nodiscard]] std::vector<transfer_in> const& ins() const noexcept { return ins_; }
  /// Bytes that went out.
  [[nodiscard]] double sent_bytes() const noexcept { return sent_; }
  /// How many of the operations belong to forward.
  [[nodiscard]] std::uint32_t forward_ops() const noexcept { return forward_ops_; }

 private:
  bool lay_out_forward();
  bool lay_out_backward();
  bool lay_out_run(run_kind kind, std::uint32_t first, std::uint32_t last);
  void add_run(run_kind kind, std::uint32_t s, std::uint32_t t, double free, double held);
  void add_led(std::uint32_t stage, double held);
  void add_pass(std::uint32_t s, std::uint32_t end, double held);
  bool place_fetches();
  void add_op(chain_op op, std::uint32_t stage, double seconds, double bytes);
  void send(chain_tensor what, double bytes, std::uint32_t used_until);
  void fetch(std::uint32_t out, std::uint32_t consumer);
  [[nodiscard]] double forward_bytes(std::uint32_t i) const;
  [[nodiscard]] std::uint32_t run_start(std::uint32_t last) const;
  [[nodiscard]] bool separate(std::uint32_t stage) const {
    return stage == 0 || (*plan_)[stage - 1].saving == replayed;
  }
  [[nodiscard]] double reserve_bytes(std::uint32_t first) const;
  [[nodiscard]] bool can_fit(double bytes, std::uint32_t position) const;
  [[nodiscard]] double input_bytes(std::uint32_t stage);

  chain const* chain_;
  replay_table const* replays_;
  double limit_;
  double tolerance_;
  chain_plan const* plan_ = nullptr;
  std::vector<saving_option> how_;
  std::vector<placed_op> ops_;
  std::vector<transfer_out> outs_;
  std::vector<transfer_in> ins_;
  std::vector<double> load_;  // bytes at each position, early fetches counted
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};
  std::vector<std::uint32_t> saved_out_;     // index into outs_ of S[i]'s ferried part
  std::vector<std::uint32_t> boundary_out_;  // and of X[i]
  std::vector<std::uint8_t> fetched_;        // by index into outs_
  double kept_ = 0;
  double sent_ = 0;
  double base_ = 0;  // of the replay being laid out
  std::uint32_t forward_ops_ = 0;
  std::uint32_t direct_from_ = 0;  // the last run, if forward goes straight into it
  bool failed_ = false;
  chain_timeline timeline_;
};

}  // namespace ferry::planning

// Recipe checks. Always: what a recipe names as its inputs has to be saved in the same step. With FERRY_VERIFY=recipes:
// a recipe runs while its item is still there, and what it writes is compared with the item, byte by byte.
//
// It writes into free memory of the budget and reads the inputs where they are: nothing makes way for a check. Blocks
// are handed out with a pattern in them, and so is what the recipe writes to: what neither forward nor the recipe
// writes is the same then, and what only one of them writes is not. An item that keeps its place is checked there,
// because its recipe may know the place: its bytes are set aside, and put back if the recipe does not give the same.
// Every item has its turn in one of its first steps; one that cannot be checked then is tried again whenever it is
// saved or restored. The host waits for all of this. Threads: the session's only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ferry/config.hpp"
#include "observe/ledger.hpp"
#include "store/tiered_store.hpp"

namespace ferry::path {

/// Throws: `recipe_error` for what is no error of Ferry's.
void call_recipe(item_key const& key, recipe& how, recipe_context const& to);

class recipe_checks {
 public:
  /// So many steps give every item its turn.
  static constexpr std::uint64_t round_steps = 4;

  recipe_checks(device& on, config const& settings, store::tiered_store& store, observe::ledger& ledger);

  /// Of an item that is saved with a recipe. Its inputs may be saved after it: at the step's end all of them must have
  /// been. To be asked once, as long as the recipe names the same ones.
  void look_for_inputs(store::entry& e);
  /// Throws: `recipe_error` for an input that the step has not saved.
  void require_inputs();

  /// FERRY_VERIFY has `recipes`: what follows is for then.
  [[nodiscard]] bool on() const noexcept { return on_; }

  /// An item's bytes, whether it is saved already or about to be.
  struct subject {
    item_key const& key;
    void* address;
    std::size_t bytes;
    store::home const* place;  ///< where it stays; null: anywhere
    bool was_filled;           ///< it was a block
  };
  /// Puts the pattern into a block's memory, which the stream is to write.
  void fill(store::device_region const& block, stream_ref stream);
  /// Of an item that is about to be saved. Throws: `recipe_error` if the recipe fails or gives other bits.
  void at_save(subject const& item, stream_ref stream, recipe& how);
  /// It has had its turn in this step and could not be checked, and it has come back as it was saved.
  [[nodiscard]] bool wants(store::entry const& e) const;
  /// Of an item that has come back, as `at_save`. Requires: nothing moves it.
  void at_restore(store::entry& e, stream_ref stream);
  /// The step is over, one way or another: counts what could not be checked in its turn.
  void end_step() noexcept;

 private:
  enum class outcome : std::uint8_t { same, inputs_away, no_room, not_comparable };
  struct turn {
    std::uint64_t due = 0;         ///< the step that it may be checked in
    std::uint64_t saved_in = 0;    ///< step
    std::uint64_t recomputes = 0;  ///< when it was saved: since then its bytes are not its recipe's
    bool was_filled = false;
    bool open = false;  ///< it is its turn in this step
    outcome last = outcome::same;
  };
  class borrowed;

  [[nodiscard]] item_key const* unknown_input(store::entry const& e) const;
  void check(turn& of, subject const& item, stream_ref stream, recipe& how);
  [[nodiscard]] outcome compare(subject const& item, stream_ref stream, recipe& how);
  [[nodiscard]] bool is_over(stream_ref stream);
  [[nodiscard]] bool is_there(store::entry const& e);
  [[nodiscard]] bool has_stage();
  void run(subject const& item, recipe& how, recipe_context const& to);
  void copy_out(std::span<device_view const> pieces, std::byte* to);
  void copy_in(std::span<device_view const> pieces, std::byte const* from);
  template <typename Copy>
  void in_parts(std::span<device_view const> pieces, Copy copy);

  device& device_;
  bool const on_;
  store::tiered_store& store_;
  observe::ledger& ledger_;
  std::vector<store::entry*> with_unknown_inputs_;  // saved in this step: they name what was not saved by then
  std::unordered_map<item_key, turn> turns_;
  // Made when they are first needed.
  std::optional<stream> copies_;
  memory pinned_;
  std::vector<std::byte> pageable_;
  std::span<std::byte> stage_;
  std::vector<std::byte> saved_;  // what the item has
  std::vector<std::byte> made_;   // what the recipe gives
};

}  // namespace ferry::path

// restore: the trainer asks for an item, in backward.
#include "path/session_core.hpp"
#include "support/stage.hpp"

namespace ferry::path {

lease session_core::restore(item_key const& key, stream_ref stream) {
  support::stage const here("ferry restore");
  require_step("restore");
  require_own(stream);
  entry& e = require(key);
  ledger_.met(item_event::needed, e);
  infer_segment(pass::backward, key, stream);
  clock_.called();
  progress();
  // Lent first: nothing may take the item away while it is being brought back.
  lease held = lend(e, stream);
  ledger_.steps().needed(e);
  auto const call = tape_.note(asked::of_item(asked::what::restore, e), stream);
  bring_back(e, stream);
  tape_.answered(call);
  if (checks_.on()) check_recipe(e, stream);
  held.address_ = e.device.address();
  e.course.restored = true;
  ++e.record.stats.restores;
  ++ledger_.totals().restores;
  bool const backward_begins = !order_.in_backward();
  order_.restored(e);
  if (recorder_.on()) recorder_.restored(e);
  // From then on there is more to prefetch only when bytes have come free or an item has become hosted.
  if (backward_begins) transfers_.look_for_fetches();
  if (transfers_.should_look_for_fetches()) see_to_others("restore");
  return held;
}

/// With FERRY_VERIFY=recipes, of an item that could not be checked when it was saved.
void session_core::check_recipe(entry& e, stream_ref stream) {
  if (!e.rebuild.possible || !checks_.wants(e)) return;
  wait_for_transfer(e);
  if (e.state() == item_state::resident) checks_.at_restore(e, stream);
}

}  // namespace ferry::path

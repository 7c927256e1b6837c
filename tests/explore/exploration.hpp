// What an explored run is exposed to besides failing operations. Plain data, drawn with the program.
#pragma once

#include <cstdint>
#include <ostream>

namespace ferry::testing {

struct exploration {
  bool on = false;
  bool recalls_copies = true;  ///< false: copies behind a failure run, as on a GPU
  bool by_address = true;      ///< addresses are bytes, as on a real device
  // Per mille of the calls that the session and the trainer, or the transfer engine, make to the device.
  unsigned host_slips = 0;      ///< before which others get on
  unsigned engine_pauses = 0;   ///< in which the engine is interrupted
  unsigned engine_lags = 0;     ///< after which it has not noticed yet that there is something to do
  unsigned failing_calls = 0;   ///< that fail
  unsigned stalls = 0;          ///< how often the link stands still for a while
  unsigned corrupted = 0;       ///< per mille of the copies that move a wrong byte; only where checksums are compared
  bool dead_link = false;       ///< from some time on it stands still for ever
  std::uint64_t broken_at = 0;  ///< all copies from that one on fail, until the storm is over; 0: none
  std::uint64_t lost_at = 0;    ///< the device is lost from that call on; 0: never
  bool journal = false;         ///< the session writes down what happens
};

inline void showValue(exploration const& e, std::ostream& out) {
  if (!e.on) return;
  out << " explored: " << (e.recalls_copies ? "recalled" : "unrecalled") << (e.by_address ? "" : " scattered")
      << " slips " << e.host_slips << " pauses " << e.engine_pauses << " lags " << e.engine_lags << " failing calls "
      << e.failing_calls << " stalls " << e.stalls << " corrupted " << e.corrupted << (e.dead_link ? " dead link" : "")
      << " broken at " << e.broken_at << " lost at " << e.lost_at << (e.journal ? " journal" : "");
}

}  // namespace ferry::testing

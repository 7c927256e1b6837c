// Ctrl-C. A signal only raises a flag, which long work looks at between its steps: so streams drain and files are
// saved as on any other way out. A second signal ends at once.
#pragma once

namespace ferry::command {

/// From now on SIGINT and SIGTERM raise the flag.
void listen_for_interrupts();
[[nodiscard]] bool interrupted() noexcept;

}  // namespace ferry::command

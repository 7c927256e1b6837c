// Ctrl-C. A signal only raises a flag; the chain looks at it between segments and unwinds by an exception, so
// that leases end, streams drain and files are closed as on any other way out. A second signal ends at once.
#pragma once

#include <exception>

namespace matmul_chain {

class interrupted : public std::exception {
 public:
  [[nodiscard]] char const* what() const noexcept override { return "interrupted"; }
};

/// From now on SIGINT and SIGTERM raise the flag.
void listen_for_interrupts();

/// Throws: `interrupted` if the flag is up.
void throw_if_interrupted();

}  // namespace matmul_chain
